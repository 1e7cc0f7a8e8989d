"""When handing the floor around must stop (behaviour A38)."""

from collections.abc import Sequence


def stop_reason(holders: Sequence[str], target: str, limit: int) -> str | None:
    """Why the floor may not go to `target` now: `loop`, `limit:transfers`, or None when it may.

    `holders` are the agents that held the floor since the user's message, in order; `limit` is how many hand-overs one
    message may cause. A loop is two agents handing the floor to each other twice: A→B→A→B.
    """
    path = [*holders, target]
    if len(path) >= 4 and path[-1] == path[-3] and path[-2] == path[-4] and path[-1] != path[-2]:
        return "loop"
    return "limit:transfers" if len(holders) > limit else None
