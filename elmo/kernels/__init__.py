"""Faster forms of the biLM's arithmetic: C on a CPU, Triton on a GPU."""
