"""Breakdowns: scores of the two compared arms on kinds of test examples, such as short and long ones."""
