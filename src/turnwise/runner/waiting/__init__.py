"""Who works on which session, and who waits for it."""
