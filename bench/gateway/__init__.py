"""The gateway beside a bare route: requests in a second, streams at once, and memory over minutes."""
