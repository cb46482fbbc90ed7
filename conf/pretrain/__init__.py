"""Settings of `python -m elmo.pretrain` (package data)."""
