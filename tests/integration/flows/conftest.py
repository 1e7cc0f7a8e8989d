"""What the tests of flows share: runners over one file, closed at the end."""

from runner_fixtures import process

__all__ = ["process"]
