"""An agent's run to its end, whatever it raises."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from turnwise.facts.cards import AgentCard
from turnwise.facts.errors import AgentFailed, AgentTimeout, TurnwiseError
from turnwise.ports.context import Suspend
from turnwise.runner.record.closing import told

ERROR_CHARACTERS = 500

log = logging.getLogger("turnwise.runner")


async def performed(card: AgentCard, play: Callable[[], Awaitable[None]], report: Callable[[TurnwiseError], None]) -> None:
    """Plays the run, within the card's time limit; what goes wrong is reported, and raised.

    Raises Suspend when it waits, AgentTimeout, AgentFailed for whatever else it raises, chained; other typed errors as
    they are.
    """
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
        report(problem)
        raise problem from error
    except TurnwiseError as error:
        report(error)
        raise
    except (GeneratorExit, KeyboardInterrupt, Suspend):
        raise
    except BaseException as error:
        # SystemExit, a panic of an extension module, a cancellation nobody asked for: the agent's failure, not ours.
        if isinstance(error, asyncio.CancelledError) and _is_cancelled():
            raise
        problem = _failed(card.name, error)
        report(problem)
        raise problem from error


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _failed(agent: str, error: BaseException) -> AgentFailed:
    # What it raised is on record; where, only those who keep it want to know. Without a word from them about log lines, Python
    # would print a warning to whoever is at the terminal.
    log.info("Agent %r raised.", agent, exc_info=error)
    return AgentFailed(f"Agent {agent!r} raised {type(error).__name__}: {told(error)[:ERROR_CHARACTERS]}")
