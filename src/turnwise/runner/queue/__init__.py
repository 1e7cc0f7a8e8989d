"""Session queues: the order of messages in a session, the workers that answer them, and recovery."""
