"""One message: planned, run, and taken up again."""
