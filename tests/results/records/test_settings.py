"""Settings as they are compared: keys that were added later count as their first default."""

from results.records.collect import PUBLISHED, collect
from results.records.identity import flattened
from results.records.record import first_defaults, settings_of
from tests.results.making import make_record, with_config


def test_first_defaults_are_values_of_published_records():
    """None was made up: a record has the value, unless the key is newer than all of them."""
    known = [flattened(item.record.config) for item in collect([PUBLISHED]).files if not item.record.trial]
    first = first_defaults()
    values = {key: [leaves[key] for leaves in known if key in leaves] for key in first}
    assert {key for key, found in values.items() if found and first[key] not in found} == set()
    assert sum(map(bool, values.values())) > 20


def test_a_part_that_a_run_lacks_gets_no_settings():
    record = with_config(make_record(), features={"name": "glove", "words": None, "elmo": {"l2": 0.1}})
    found = settings_of(record)
    assert found["features.elmo.tuning.decay"] == 0.4
    assert not [key for key in found if key.startswith("features.words.")]
    assert (
        settings_of(with_config(record, features={"frozen": {"own": {"l2": 0}}})).keys().isdisjoint({"features.frozen"})
    )
    assert settings_of(make_record()).keys() >= {"trainer.lr", "trainer.eps", "train_fraction"}
