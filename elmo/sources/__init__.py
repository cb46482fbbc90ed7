"""Frozen layers: one interface, and what implements it."""
