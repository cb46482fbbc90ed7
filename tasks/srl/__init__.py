"""Semantic role labelling: who did what to whom, for one predicate at a time."""
