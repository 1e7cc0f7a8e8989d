"""An agent's run to its end, whatever it raises."""

import asyncio
import logging
import os
import sysconfig
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from turnwise.facts.cards import AgentCard
from turnwise.facts.errors import AgentFailed, AgentTimeout, TurnwiseError
from turnwise.ports.context import Suspend
from turnwise.ports.stopping import is_stopped
from turnwise.runner.record.events import error_text

_FRAMES_SHOWN = 8
_PACKAGE = str(Path(__file__).resolve().parents[2])
_INSTALLED_PATHS = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def own_frames(error: BaseException) -> list[str]:
    """The places the error came through, as `file:line in function`, outermost first, at most 8: the innermost ones.

    Only those outside of Turnwise, Python's library and installed packages. Without any values.
    """
    outside = (_PACKAGE, "<frozen", *_INSTALLED_PATHS)
    own = [_place(trace) for trace in _traces(error) if not trace.tb_frame.f_code.co_filename.startswith(outside)]
    return own[-_FRAMES_SHOWN:]


def innermost(error: BaseException) -> list[str]:
    """The place where the error was raised, whoever's code that is; empty when it was never raised."""
    return [_place(trace) for trace in _traces(error)][-1:]


def passes_twice(error: BaseException, function: Callable[..., Any]) -> bool:
    """Whether the error came through the function more than once."""
    return sum(trace.tb_frame.f_code is function.__code__ for trace in _traces(error)) > 1


def _traces(error: BaseException) -> Iterator[TracebackType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _place(trace: TracebackType) -> str:
    code = trace.tb_frame.f_code
    return f"{code.co_filename}:{trace.tb_lineno} in {code.co_name}"


ERROR_CHARACTERS = 500

log = logging.getLogger("turnwise.runner")


async def run_agent(
    card: AgentCard, run: Callable[[], Awaitable[None]], report: Callable[[TurnwiseError], Awaitable[None]]
) -> None:
    """Plays the run, within the card's time limit; what goes wrong is reported, and raised.

    Raises Suspend when it waits, AgentTimeout, AgentFailed for whatever else it raises, chained; other typed errors as
    they are.
    """
    task = asyncio.current_task()
    try:
        async with asyncio.timeout(card.time_limit) as clock:
            await run()
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
        if isinstance(error, AgentFailed) and not passes_twice(error, run_agent):
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
    return AgentFailed(f"Agent {agent!r} raised {kind}: {error_text(error)[:ERROR_CHARACTERS]}")


def _places(error: BaseException) -> str:
    return " < ".join(reversed(own_frames(error) or innermost(error)))


def _shown(error: BaseException) -> BaseException | None:
    return error if os.environ.get("TURNWISE_DEBUG") else None


def stop_reason(holders: Sequence[str], target: str, limit: int) -> str | None:
    """Why the floor may not go to `target` now: `loop`, `limit:transfers`, or None when it may.

    `holders` are the agents that held the floor since the user's message, in order; `limit` is how many hand-overs one
    message may cause. A loop is two agents handing the floor to each other twice: A→B→A→B.
    """
    path = [*holders, target]
    if len(path) >= 4 and path[-1] == path[-3] and path[-2] == path[-4] and path[-1] != path[-2]:
        return "loop"
    return "limit:transfers" if len(holders) > limit else None
