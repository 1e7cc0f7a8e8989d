"""Tasks: what they are, their results, what they need, and how far they have come. Values and pure functions."""
