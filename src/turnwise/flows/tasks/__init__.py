"""Tasks: definition, result types, dependencies and progress. Values and pure functions."""
