"""Fuzzing: every reader of a file that the suite writes or accepts, given damaged files from fixed seeds."""
