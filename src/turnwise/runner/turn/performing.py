"""An agent's run to its end, whatever it raises."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable

from turnwise.facts.cards import AgentCard
from turnwise.facts.errors import AgentFailed, AgentTimeout, TurnwiseError
from turnwise.ports.context import Suspend
from turnwise.ports.stopping import is_stopped
from turnwise.runner.record.closing import told
from turnwise.runner.turn.own_frames import innermost, own_frames, passes_twice

ERROR_CHARACTERS = 500

log = logging.getLogger("turnwise.runner")


async def performed(
    card: AgentCard, play: Callable[[], Awaitable[None]], report: Callable[[TurnwiseError], Awaitable[None]]
) -> None:
    """Plays the run, within the card's time limit; what goes wrong is reported, and raised.

    Raises Suspend when it waits, AgentTimeout, AgentFailed for whatever else it raises, chained; other typed errors as
    they are.
    """
    task = asyncio.current_task()
    try:
        async with asyncio.timeout(card.time_limit) as clock:
            await play()
    except TimeoutError as error:
        problem: TurnwiseError
        if clock.expired():
            problem = AgentTimeout(
                f"Agent {card.name!r} took longer than its {card.time_limit} s.", fix="Raise its time_limit."
            )
        else:
            problem = _failed(card.name, error)
        await report(problem)
        raise problem from error
    except TurnwiseError as error:
        if isinstance(error, AgentFailed) and not passes_twice(error, performed):
            log.error("Agent %r failed (%s) at %s", card.name, error.code, _places(error), exc_info=_shown(error))
        await report(error)
        raise
    except Suspend:
        raise
    except BaseException as error:
        # SystemExit, KeyboardInterrupt, a panic of an extension module, a cancellation nobody asked for: the agent's failure.
        if is_stopped(error, task):
            raise
        problem = _failed(card.name, error)
        await report(problem)
        raise problem from error


def _failed(agent: str, error: BaseException) -> AgentFailed:
    """The failure to record. Where it was raised is logged: the places only, as values and texts may be a user's own words."""
    kind = type(error).__name__
    log.error("Agent %r raised %s at %s", agent, kind, _places(error), exc_info=_shown(error))
    return AgentFailed(f"Agent {agent!r} raised {kind}: {told(error)[:ERROR_CHARACTERS]}")


def _places(error: BaseException) -> str:
    return " < ".join(reversed(own_frames(error) or innermost(error)))


def _shown(error: BaseException) -> BaseException | None:
    return error if os.environ.get("TURNWISE_DEBUG") else None
