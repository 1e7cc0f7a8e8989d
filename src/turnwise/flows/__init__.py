"""Flows: tasks that depend on each other, done by agents in turns (behaviours D1 to D13)."""
