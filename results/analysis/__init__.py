"""Analysis of records: means, gains, intervals, verdicts and the state of sweeps."""
