"""One agent turn: the context that the agent gets, and the path of its events into the log."""
