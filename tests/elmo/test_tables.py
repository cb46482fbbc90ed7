"""Tables of text: long texts, and quotes that do not end."""

import pytest

from elmo.common.errors import InputError
from elmo.common.files import table_rows


def test_a_text_may_be_a_whole_document(tmp_path):
    document = "It rained, again. " * 20_000
    (tmp_path / "a.csv").write_text(f'text,label\n"{document}",a\nshort,b\n')
    assert list(table_rows(tmp_path / "a.csv", ["text", "label"])) == [(2, (document, "a")), (3, ("short", "b"))]


def test_a_quote_without_its_end_is_named(tmp_path):
    (tmp_path / "a.csv").write_text('text,label\n"It rained,a\nagain,b\n')
    with pytest.raises(InputError, match=r"a\.csv, line \d: expected a table, found: .* Check the quotes up to"):
        list(table_rows(tmp_path / "a.csv", ["text"]))
