import copy
import json

import pytest

from elmo import SIZES, BilmOptions, InputError
from tests.elmo import naive

CONTENT = naive.make_options()


def changed(path, value):
    """CONTENT with the value at a dotted path replaced, or removed if it is None."""
    content = copy.deepcopy(CONTENT)
    *parents, name = path.split(".")
    inner = content
    for parent in parents:
        inner = inner[parent]
    if value is None:
        del inner[name]
    else:
        inner[name] = value
    return content


def test_options_are_read_from_json():
    assert BilmOptions.from_json(CONTENT) == BilmOptions(
        cell_dim=20,
        projection_dim=6,
        filters=((1, 4), (2, 8), (3, 16), (7, 12)),
        char_dim=4,
        n_highway=2,
        n_layers=2,
        max_characters=50,
        activation="relu",
        cell_clip=3.0,
        projection_clip=3.0,
        skip_connections=True,
    )


@pytest.mark.parametrize("options", [*SIZES.values(), BilmOptions.from_json(naive.make_options(cell_clip=None))])
def test_round_trip(options):
    through = BilmOptions.from_json(json.loads(json.dumps(options.to_json())))
    assert through == options
    assert through.canonical() == options.canonical()


def test_json_has_the_keys_that_bilm_tf_and_allennlp_read():
    content = SIZES["original"].to_json()
    assert content["char_cnn"]["n_characters"] == 262
    assert content["lstm"] == {
        "dim": 4096,
        "projection_dim": 512,
        "n_layers": 2,
        "cell_clip": 3.0,
        "proj_clip": 3.0,
        "use_skip_connections": True,
    }


def test_missing_clip_values_mean_no_clipping():
    assert BilmOptions.from_json(changed("lstm.cell_clip", None)).cell_clip is None
    assert BilmOptions.from_json(changed("lstm.proj_clip", None)).projection_clip is None
    assert BilmOptions.from_json(changed("lstm.use_skip_connections", None)).skip_connections is False


def test_equal_options_have_equal_canonical_strings():
    whole, decimal = (BilmOptions(8, 4, cell_clip=clip, projection_clip=clip) for clip in (3, 3.0))
    assert whole == decimal
    assert whole.canonical() == decimal.canonical()
    assert BilmOptions(8, 4, cell_clip=2.0).canonical() != BilmOptions(8, 4).canonical()
    assert BilmOptions(8, 4, cell_clip=None).canonical() != BilmOptions(8, 4).canonical()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (changed("lstm", None), "o.json: expected the key 'lstm'"),
        (changed("char_cnn", None), "expected the key 'char_cnn'"),
        (changed("lstm.dim", None), "expected the key 'dim'"),
        (changed("lstm.projection_dim", None), "expected the key 'projection_dim'"),
        (changed("char_cnn.filters", None), "expected the key 'filters'"),
        (changed("char_cnn.embedding", None), "expected the key 'embedding'"),
        (changed("lstm.dim", "wide"), r"o\.json: a value is not of the type .*wide"),
        (changed("lstm", [1, 2]), "a value is not of the type"),
        (changed("char_cnn.filters", 7), "a value is not of the type"),
        (changed("char_cnn.filters", []), r"o\.json: char_cnn.filters must list at least one"),
        (changed("char_cnn.activation", "gelu"), r"o\.json: char_cnn\.activation: expected relu or tanh, found 'gelu'"),
        (changed("char_cnn.max_characters_per_token", 5), "a width in char_cnn.filters: expected at most 5, found 7"),
        (changed("char_cnn.max_characters_per_token", 2), "max_characters_per_token: expected at least 3, found 2"),
        (changed("lstm.dim", 0), r"o\.json: .*expected at least 1, found 0"),
        (changed("lstm.projection_dim", -4), r"expected at least 1, found -4"),
        (changed("lstm.n_layers", 0), r"expected at least 1, found 0"),
        (changed("char_cnn.filters", [[0, 4]]), r"every number in char_cnn.filters: expected at least 1, found 0"),
        (changed("lstm.cell_clip", -1.0), r"o\.json: lstm.cell_clip must be above 0, .* found -1"),
        (changed("lstm.proj_clip", float("nan")), r"lstm.proj_clip must be above 0, .* found nan"),
        (changed("char_cnn.n_highway", -1), r"n_highway: expected at least 0, found -1"),
        *[
            (changed(name, 10**15), rf"o\.json: {name}: expected at most [0-9,]+, found 10{{15}}\.")
            for name in (
                "lstm.dim",
                "lstm.projection_dim",
                "lstm.n_layers",
                "char_cnn.embedding.dim",
                "char_cnn.n_highway",
                "char_cnn.max_characters_per_token",
            )
        ],
        (changed("lstm.dim", 10**400), r"lstm.dim: expected at most 65,536, found 10{79}\.\.\.\. Use the options"),
        (changed("char_cnn.filters", [[1, 10**15]]), r"the sum of all char_cnn.filters: expected at most 65,536"),
        (changed("char_cnn.filters", [[1, 9]] * 10**4), r"the sum of all char_cnn.filters: expected at most 65,536"),
        (changed("char_cnn.filters", [[10**15, 1]]), "a width in char_cnn.filters: expected at most 50, found 10{15}"),
        *[
            (changed("lstm.dim", value), r"o\.json: a value is not .*expected a whole number")
            for value in (2.7, "20", True, float("inf"), [20])
        ],
        (changed("lstm.cell_clip", float("inf")), r"lstm.cell_clip must be above 0, .* found inf"),
        (changed("lstm.cell_clip", 10**400), r"o\.json: a value is not of the type"),
        (changed("lstm.use_skip_connections", "no"), r"o\.json: a value is not .*expected true or false, found 'no'"),
    ],
)
def test_invalid_content_is_refused(content, message):
    with pytest.raises(InputError, match=message):
        BilmOptions.from_json(content, "o.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{not json", "does not parse"),
        (b"", "does not parse"),
        (b"\xff\xfe", "does not parse"),
        (b"[1]", "expected a JSON object, found a list"),
        (b"[" * 10**6, "does not parse"),
        (None, "no such options file"),
        ("folder", "no such options file"),
    ],
)
def test_invalid_files_are_refused(tmp_path, text, message):
    path = tmp_path / "options.json"
    if text == "folder":
        path.mkdir()
    elif text is not None:
        path.write_bytes(text)
    with pytest.raises(InputError, match=message) as raised:
        BilmOptions.from_file(path)
    assert str(path) in str(raised.value)
