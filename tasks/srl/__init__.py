"""Semantic role labelling: finds and labels the arguments of given predicates."""
