"""The help desk's agents, one file for each area."""
