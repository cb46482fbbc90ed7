"""Which runs may be published, and how they are copied."""
