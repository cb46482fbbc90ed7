"""A run on a mixture of texts: its card, and progress after the budget is spent."""

import io
from dataclasses import replace

from rich.console import Console

from elmo.pretrain.corpus.token_store import TokenStore
from elmo.pretrain.run import pretrain
from elmo.pretrain.settings import Export
from tests.elmo.pretrain.run_files import card_of
from tests.elmo.pretrain.training_text import settings

END_OF_A_RUN = (
    "100.0 %  step 2",
    "perplexity: 100 %",
    "exporting to ",
    "perplexity of exported files: 100 %",
    "2 steps",
)


def test_the_mixture_is_on_the_card_and_the_end_of_a_run_is_reported(text, tmp_path):
    taken = tmp_path / "taken.txt"
    taken.write_text("A paragraph of a test set , which must not occur in the text of a biLM , to be fair .\n")
    said = io.StringIO()
    wanted = settings(text, tmp_path / "out", 2, training={"recase": 0.1}, exclude=[str(taken)])
    wanted = replace(wanted, corpus=[f"{text}*2", str(taken)], export=Export(weights="int8"))
    pretrain(wanted, [], Console(file=said, width=200))
    lines = said.getvalue().splitlines()
    at = [next(i for i, line in enumerate(lines) if line.startswith(start)) for start in END_OF_A_RUN]
    assert at == sorted(at)
    card = card_of(tmp_path / "out")
    counts = TokenStore.open(tmp_path / "out" / "store").header["counts"]
    assert counts["excluded_paragraphs"] == 1
    for expected in (
        "| `export.weights` | int8 |",
        "| file | bytes | sha256 | weight |",
        "` | 2 |",
        "` | left out |",
        "| `training.recase` | 0.1 |",
        "| excluded paragraphs | 1 |",
    ):
        assert expected in card
    pretrain(replace(wanted, name="other", export=Export()), [], Console(file=said, width=200))
    finished, warning = said.getvalue().splitlines()[-2:]
    assert finished.endswith("this run is finished; see " + str(tmp_path / "out" / "export" / "tiny" / "card.md"))
    assert "its weights are in int8, not float16" in warning
