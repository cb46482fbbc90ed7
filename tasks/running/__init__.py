"""Runs: configuration and its errors, plan, experiment, loggers; saved models, predictions, export of text."""
