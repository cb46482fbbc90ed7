"""Publishing: rules for runs, and the page of published tables."""
