"""Access control: authentication, permissions, rate limits and concurrency limits."""
