"""Torch modules that heads are built of: layers, recurrence, CRF, and seeded initialisation."""
