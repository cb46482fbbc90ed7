"""Triton kernels of the biLM."""
