"""Sweeps: the runs of a command, what they need, how they are started and end, launchers."""
