"""The board: bundles of runs that others hand in, their checks, and the page that compares their sources."""
