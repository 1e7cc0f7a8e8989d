"""A retail help desk: agents that work on a small shop database."""
