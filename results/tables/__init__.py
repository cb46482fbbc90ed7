"""The table: cells, formats, the terminal, and the commands that make a run again."""
