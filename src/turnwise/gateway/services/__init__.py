"""Operations on agents, sessions, messages and artifacts, each with the caller's rights checked. All protocols use them."""
