"""What came out: run records and the tables made from them (standard library only)."""
