"""Results tables: cells, formats, terminal output, and commands that repeat runs."""
