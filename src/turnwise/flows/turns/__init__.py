"""Turns: ready tasks by agent, the choice of the next agent, and its brief."""
