"""Probes: what a frozen representation encodes, read by a linear classifier (POS) or by nearest neighbours (senses)."""
