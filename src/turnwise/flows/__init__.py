"""Flows: tasks that depend on each other, and whose turn it is (behaviours D1 to D13)."""
