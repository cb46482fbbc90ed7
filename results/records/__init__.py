"""Files of a run: record, identity, lock, example scores and environment."""
