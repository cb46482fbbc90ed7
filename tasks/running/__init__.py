"""A run: its configuration, plan, saved model and experiment loggers."""
