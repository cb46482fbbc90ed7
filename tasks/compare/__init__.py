"""`python -m tasks.compare FILE`: do frozen contextual vectors help on your own data? One command, one answer."""
