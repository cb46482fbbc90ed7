"""Masked LM: a transformer that reads whole sentences, its options and its weight files."""
