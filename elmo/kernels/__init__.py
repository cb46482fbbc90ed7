"""Optional speed: C for a CPU and Triton for a GPU. Without this folder torch computes the same, slower."""
