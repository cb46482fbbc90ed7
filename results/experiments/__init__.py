"""Experiments: tables of runs in files, and their rows, arms and cells."""
