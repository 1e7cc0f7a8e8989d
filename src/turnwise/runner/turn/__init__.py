"""One turn: an agent's context, and what it emits."""
