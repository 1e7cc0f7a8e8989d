"""Turns: which tasks are ready for whom, whose turn it is, and what an agent is told."""
