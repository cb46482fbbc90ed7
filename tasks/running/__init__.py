"""Runs: configuration and its errors, experiment, loggers; trained models and their predictions."""
