"""Charts of the report: each function draws one Figure. Every mark has its number as a tooltip."""
