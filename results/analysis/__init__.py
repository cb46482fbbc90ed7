"""What is computed from records: means, gains, intervals, verdicts and the state of a sweep."""
