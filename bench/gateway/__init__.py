"""The gateway compared with a bare route: requests per second, concurrent streams, and memory over minutes."""
