"""Who looks at the log, from where, and how much may be shown."""

from typing import NamedTuple


class View(NamedTuple):
    """The run of an agent that reads: `agent` on `branch` of the invocation.

    scopes: what it works on; None = everything. An event of another agent is hidden when it has scopes, and none of these or
    below them (behaviour D7). giver: who gave the reader what opens its run, when the log does not hold that; None when the
    user or the caller did. calls_as_text: the reader's own calls and their results are told in words, as those of others are:
    for a model that has no tools.
    """

    agent: str
    branch: str
    invocation_id: str
    scopes: frozenset[str] | None = None
    giver: str | None = None
    calls_as_text: bool = False


class Budget(NamedTuple):
    """How much of the log is shown: tokens as `transcript.sizes` estimates them, and events."""

    tokens: int
    events: int
