"""Notifications of a task: who is to have them, and how they get there."""
