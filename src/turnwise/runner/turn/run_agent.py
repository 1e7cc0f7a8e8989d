"""Runs one agent to its end and turns any exception into a recorded error. Also holds the loop guard for handoffs."""

import asyncio
import logging
import os
import sysconfig
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from turnwise.facts.errors import AgentFailed, AgentTimeout, TurnwiseError
from turnwise.facts.tree import AgentCard
from turnwise.ports.context import Suspend, is_stopped
from turnwise.runner.record.events import error_text

ERROR_CHARACTERS = 500
_FRAMES_SHOWN = 8
_PACKAGE = str(Path(__file__).resolve().parents[2])
_INSTALLED_PATHS = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})

log = logging.getLogger("turnwise.runner")


async def run_agent(
    card: AgentCard, run: Callable[[], Awaitable[None]], report: Callable[[TurnwiseError], Awaitable[None]]
) -> None:
    """Runs an agent within the card's time limit, and reports and raises its errors.

    Args:
        card: The agent's card.
        run: Runs the agent.
        report: Records the error.

    Raises:
        Suspend: The agent waits.
        AgentTimeout: The time limit passed.
        AgentFailed: The agent raised any other exception, which is chained. Typed errors are raised unchanged.
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
            log.error("Agent %r failed (%s) at %s", card.name, error.code, _places(error), exc_info=_logged_exception(error))
        await report(error)
        raise
    except Suspend:
        raise
    except BaseException as error:
        # SystemExit, KeyboardInterrupt, a panic of an extension module, an unrequested cancellation: the agent failed.
        if is_stopped(error, task):
            raise
        problem = _failed(card.name, error)
        await report(problem)
        raise problem from error


def stop_reason(holders: Sequence[str], target: str, limit: int) -> str | None:
    """Returns why a handoff to `target` is refused: `loop`, `limit:transfers`, or None when it is allowed.

    A loop is two agents that transfer to each other twice: A→B→A→B.

    Args:
        holders: The agents that had the turn since the user's message, in order.
        target: The agent that is to get the next turn.
        limit: The maximum number of handoffs for one message.
    """
    path = [*holders, target]
    if len(path) >= 4 and path[-1] == path[-3] and path[-2] == path[-4] and path[-1] != path[-2]:
        return "loop"
    return "limit:transfers" if len(holders) > limit else None


def own_frames(error: BaseException) -> list[str]:
    """Returns the user's frames of the traceback, as `file:line in function`, outermost first, at most the 8 innermost.

    Leaves out Turnwise, the standard library and installed packages. Contains no values.
    """
    outside = (_PACKAGE, "<frozen", *_INSTALLED_PATHS)
    own = [_place(trace) for trace in _traces(error) if not trace.tb_frame.f_code.co_filename.startswith(outside)]
    return own[-_FRAMES_SHOWN:]


def innermost(error: BaseException) -> list[str]:
    """Returns the frame that raised the error, in any code; empty when the error was never raised."""
    return [_place(trace) for trace in _traces(error)][-1:]


def passes_twice(error: BaseException, function: Callable[..., Any]) -> bool:
    """Returns whether the traceback contains the function more than once."""
    return sum(trace.tb_frame.f_code is function.__code__ for trace in _traces(error)) > 1


def _traces(error: BaseException) -> Iterator[TracebackType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _place(trace: TracebackType) -> str:
    code = trace.tb_frame.f_code
    return f"{code.co_filename}:{trace.tb_lineno} in {code.co_name}"


def _failed(agent: str, error: BaseException) -> AgentFailed:
    """Logs where the error was raised and returns the failure to record. Logs no values: they may hold user text."""
    kind = type(error).__name__
    log.error("Agent %r raised %s at %s", agent, kind, _places(error), exc_info=_logged_exception(error))
    return AgentFailed(f"Agent {agent!r} raised {kind}: {error_text(error)[:ERROR_CHARACTERS]}")


def _places(error: BaseException) -> str:
    return " < ".join(reversed(own_frames(error) or innermost(error)))


def _logged_exception(error: BaseException) -> BaseException | None:
    return error if os.environ.get("TURNWISE_DEBUG") else None
