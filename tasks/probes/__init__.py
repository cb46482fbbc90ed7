"""Probes: what a frozen representation holds, read by a linear classifier (POS) or by nearest neighbours (senses)."""
