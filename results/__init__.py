"""Results: run records and the tables made from them (standard library and elmo.common only)."""
