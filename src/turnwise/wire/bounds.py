"""How long and how large things may be in paths, queries and bodies of our own API."""

MOST_CHARACTERS = 200
MOST_ROWS = 200
MOST_SEQUENCE = 2**63 - 1
MOST_CURSOR = 2_000
SEGMENT = r"^[^/\x00]*[^/.\x00][^/\x00]*$"
"""An id that is one segment of a path: no slash, and not `.` or `..`, which clients take for places."""
PLAIN = r"^[^\x00]+$"
