"""Coverage of words by pretrained vectors: recorded, with a warning if it is low, never an error."""

import json

import pytest

from results.records.record import read_record
from tests.tasks.user import arguments, path_of

pytestmark = pytest.mark.integration


def run_with(command, place, folder, content):
    vectors = folder / "v.txt"
    vectors.write_text(content)
    code, _, err = command(*arguments(place, folder / "runs", f"features.words.vectors={vectors}", "trainer.epochs=1"))
    path = path_of(folder / "runs", **{"features.words.vectors": "v.txt", "trainer.epochs": 1})
    return code, err, path


def lower_case_words(place, split):
    lines = (place.data / "mine" / f"{split}.txt").read_text().splitlines()
    return {line.split()[0].lower() for line in lines if line}


def test_the_record_states_it_for_each_split(place, command, tmp_path):
    covered = {"sings", "sleeps", "in", "bern", "cork", "new", "delhi"}
    code, err, path = run_with(command, place, tmp_path, "".join(f"{word} 1 2 3\n" for word in sorted(covered)))
    assert code == 0
    record = read_record(path)
    for split in ("train", "dev", "test"):
        words = lower_case_words(place, split)
        assert record.coverage[split] == {"words": len(words), "with_vector": len(words & covered)}
    assert "pretrained vector" not in err
    assert "coverage" not in record.fingerprinted


def test_little_is_warned_of(place, command, tmp_path):
    code, err, _ = run_with(command, place, tmp_path, "in 1 2 3\nzebra 4 5 6\n")
    assert code == 0
    words = len(lower_case_words(place, "train"))
    assert f"warning: train: of {words} words 1 have a pretrained vector" in err


def test_none_is_refused(place, command, tmp_path):
    code, err, path = run_with(command, place, tmp_path, "IN 1 2 3\nzebra 4 5 6\n")
    assert code == 1
    words = len(lower_case_words(place, "train"))
    assert f"v.txt: expected vectors for some of the {words} training words, found none" in err
    assert "features.words.lowercase=true" in err
    assert "Traceback" not in err
    assert read_record(path).status == "failed"


def test_a_record_without_it_is_read(place, command, tmp_path):
    _, _, path = run_with(command, place, tmp_path, "in 1 2 3\nsings 4 5 6\n")
    content = json.loads(path.read_text())
    before = read_record(path)
    del content["coverage"]
    path.write_text(json.dumps(content))
    assert read_record(path).coverage is None
    assert read_record(path).fingerprint == before.fingerprint
