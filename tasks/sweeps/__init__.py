"""Sweeps: Hydra's callback, how processes end, launcher errors."""
