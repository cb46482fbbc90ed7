"""Probes: what a frozen representation knows, read by a linear classifier (POS) or by nearest neighbours (senses)."""
