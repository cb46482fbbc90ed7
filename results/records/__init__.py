"""What a run leaves: record, identity, lock, example scores and environment."""
