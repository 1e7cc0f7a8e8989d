"""Who looks at the log, from where, and how much may be shown."""

from typing import NamedTuple


class View(NamedTuple):
    """The run of an agent that reads: `agent` on `branch` of the invocation.

    scopes: what it works on; None = everything. An event of another agent is hidden when it has scopes, and none of these
    (behaviour D7).
    """

    agent: str
    branch: str
    invocation_id: str
    scopes: frozenset[str] | None = None


class Budget(NamedTuple):
    """How much of the log is shown: tokens as `transcript.sizes` estimates them, and events."""

    tokens: int
    events: int
