"""Figures: each module draws some kinds as lists of marks, and `drawing` writes them as SVG."""
