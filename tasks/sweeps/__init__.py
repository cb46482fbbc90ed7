"""Sweeps: the runs of an experiment, Hydra's callback, how processes end, launcher errors."""
