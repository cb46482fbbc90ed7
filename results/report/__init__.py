"""`python -m results.report`: all runs on one self-contained HTML page, and its figures as SVG files."""
