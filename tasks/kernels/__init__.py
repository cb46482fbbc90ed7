"""Faster forms of tasks.modules: C on a CPU, Triton on a GPU."""
