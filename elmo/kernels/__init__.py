"""Faster implementations of the biLM: C on a CPU, Triton on a GPU."""
