"""The state of a store's tables before and after an upgrade."""

from typing import NamedTuple


class SchemaStatus(NamedTuple):
    """The revision of a database's tables, and the one that this version needs."""

    found: str | None
    """None: there are no tables yet, so the first use creates them."""
    wanted: str
    is_moving: bool
    """A migration has begun and rows of old tables are still to be moved."""

    @property
    def is_current(self) -> bool:
        """True if nothing is to be done: the tables are current, or there are none."""
        return self.found is None or (self.found == self.wanted and not self.is_moving)
