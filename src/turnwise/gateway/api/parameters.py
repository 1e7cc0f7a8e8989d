"""What paths and queries of our own API hold, and its bounds."""

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Path, Query, Request

from turnwise.facts.errors import RequestInvalid
from turnwise.wire.bounds import MOST_CHARACTERS, MOST_CURSOR, MOST_ROWS, MOST_SEQUENCE, PLAIN, SEGMENT

SessionId = Annotated[
    str, Path(min_length=1, max_length=MOST_CHARACTERS, pattern=SEGMENT, description="The session's id.", examples=["s-1"])
]
InvocationId = Annotated[
    str, Path(min_length=1, max_length=MOST_CHARACTERS, pattern=SEGMENT, description="The invocation's id.")
]
MessageId = Annotated[
    str,
    Path(min_length=1, max_length=MOST_CHARACTERS, pattern=PLAIN, description="The sender's id of it.", examples=["m-1"]),
]
UserId = Annotated[str, Path(min_length=1, max_length=MOST_CHARACTERS, pattern=PLAIN, description="The user's id.")]
AgentId = Annotated[str, Path(min_length=1, max_length=64, pattern=PLAIN, description="The agent's name.")]
ArtifactId = Annotated[
    str,
    Path(
        min_length=1,
        max_length=300,
        pattern=PLAIN,
        description="The artifact's name, slashes among it; with `user:` before it, it belongs to the user in all sessions.",
        examples=["report.pdf", "user:letters/2026.txt"],
    ),
]
Sequence = Annotated[int, Path(ge=1, le=MOST_SEQUENCE, description="The number of the event that holds the decision.")]

User = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=MOST_CHARACTERS,
        pattern=PLAIN,
        description="Whose it is; by default the caller's. Others' need rights over them.",
    ),
]
Name = Annotated[str | None, Query(min_length=1, max_length=300, pattern=PLAIN)]
Wait = Annotated[bool, Query(description="Whether to wait until it is answered, or waits itself.")]
After = Annotated[
    str | None, Query(max_length=MOST_CURSOR, pattern=r"^[^\x00]*$", description="The `next` of the page before this one.")
]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS, description="How many at most.")]


SHOWN = 64
"""Characters of a name that the refusal repeats."""


async def check_parameters(request: Request) -> None:
    """RequestInvalid for a query parameter that the route does not know.

    A misspelled filter that is ignored would return everything, as if all of it fitted.
    """
    if not request.query_params:
        return
    known = sorted(set(_names(request.scope["route"].dependant)))
    for name in request.query_params:
        if name not in known:
            fix = f"Known here: {', '.join(known)}." if known else "Leave it out: nothing is known here."
            raise RequestInvalid(f"There is no query parameter {name[:SHOWN]!r} here.", fix=fix, where=("query", name[:SHOWN]))


def _names(dependant: Any) -> Iterator[str]:
    """The names of its query parameters, and of those that it depends on."""
    for field in dependant.query_params:
        yield field.alias
    for needed in dependant.dependencies:
        yield from _names(needed)
