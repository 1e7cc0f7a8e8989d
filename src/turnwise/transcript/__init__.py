"""Compiles a session's log into the messages that one agent's model reads."""
