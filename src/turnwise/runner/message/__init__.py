"""The path of one message: planning, running, and recovery."""
