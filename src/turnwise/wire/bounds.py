"""Limits on paths, queries and bodies of the native API."""

MOST_CHARACTERS = 200
MOST_ROWS = 200
MOST_SEQUENCE = 2**63 - 1
MOST_CURSOR = 2_000
SEGMENT = r"^[^/\x00]*[^/.\x00][^/\x00]*$"
"""The pattern of an id that is one path segment: no slash, and not `.` or `..`, which clients resolve."""
PLAIN = r"^[^\x00]+$"
