"""Test examples of two runs, side by side."""
