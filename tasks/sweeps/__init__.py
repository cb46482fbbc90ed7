"""Sweeps: Hydra's callback, lines from other machines, how processes end, launcher errors."""
