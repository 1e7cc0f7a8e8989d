"""A flow's graph, with the states of its tasks, as a picture for people."""
