"""What stands on record of an invocation, and how it gets there."""
