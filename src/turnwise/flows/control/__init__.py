"""A run of a flow at work: what its agents are handed, what is said in the log, and the loop around it."""
