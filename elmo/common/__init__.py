"""Shared helpers: errors, range checks, atomic files, progress, processes, devices, threads."""
