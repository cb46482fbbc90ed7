"""The benchmark: tasks read data and score predictions; heads learn on top of token features."""
