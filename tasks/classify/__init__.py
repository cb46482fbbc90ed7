"""Text classification of any table: a biattentive classification network, scored by accuracy."""
