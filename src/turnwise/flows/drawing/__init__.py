"""Drawings of a flow's graph with the states of its tasks."""
