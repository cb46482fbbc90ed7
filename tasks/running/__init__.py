"""Runs: configuration, config errors, plan, experiment, saved models and loggers."""
