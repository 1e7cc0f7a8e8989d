"""The log as one agent should see it: pure functions over events."""
