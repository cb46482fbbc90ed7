"""Checks of records against the files next to them, and against each other."""
