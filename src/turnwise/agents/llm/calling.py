"""One call of one tool: what the model is told of it, whatever happens."""

import asyncio
import json
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.agents.llm.checking import misfit
from turnwise.facts.errors import LimitReached, StaleWriter, ToolFailed
from turnwise.ports.context import Suspend
from turnwise.ports.stopping import is_stopped
from turnwise.ports.tool import ChecksCalls, Tool, ToolCall

ERROR_CHARACTERS = 500


class Told(NamedTuple):
    """What the model is told; `failed`: that is an error."""

    result: JsonValue
    failed: bool = False


async def called(tool: Tool, call: ToolCall, *, characters: int) -> Told:
    """What the tool gave, or how it failed: a result that the model can react to.

    At most `characters` of it, with a mark where it was cut. Raises Suspend when the tool waits, and StaleWriter: nothing can
    be recorded any more. Other errors of a session or a store may be those of another one, which the tool uses; whether this
    one has a problem shows when the result is recorded.
    """
    seconds = call.context.config.limits.tool_seconds if tool.rules.seconds is None else tool.rules.seconds
    task = asyncio.current_task()
    try:
        async with asyncio.timeout(seconds) as clock:
            given = await tool.run(call)
        return Told(cut(given, characters))
    except (StaleWriter, Suspend):
        raise
    except ToolFailed as problem:
        return Told(cut(str(problem), characters), failed=True)
    except BaseException as error:
        # A cancellation that nobody asked for, SystemExit, a panic of an extension module: the tool's failure, not ours.
        if is_stopped(error, task):
            raise
        if isinstance(error, LimitReached) and error.which == "events":
            raise
        if isinstance(error, TimeoutError) and clock.expired():
            return Told(f"{tool.spec.name} took longer than {seconds:g} s.", failed=True)
        return _raised(error)


def unfit(tool: Tool, call: ToolCall, *, characters: int) -> Told | None:
    """What the model is told of a call that the tool would not take, as `called` tells it; None when it would, as far as can
    be known before.
    """
    if not isinstance(tool, ChecksCalls):
        problem = misfit(tool.spec, call.arguments)
        return Told(problem, failed=True) if problem else None
    try:
        tool.check_call(call)
    except ToolFailed as problem:
        return Told(cut(str(problem), characters), failed=True)
    except Exception as error:
        return _raised(error)
    return None


def cut(value: JsonValue, characters: int) -> JsonValue:
    """The value as it can be stored and is short enough; one that is too long is text, and says how long it was.

    TypeError, ValueError, RecursionError for what is no JSON value.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace").decode()
    plain: JsonValue = json.loads(text)
    shown = plain if isinstance(plain, str) else text
    if len(shown) <= characters:
        return plain
    return f"{shown[:characters]}… [cut: this is the beginning of {len(shown):,} characters]"


def _raised(error: BaseException) -> Told:
    return Told(f"{type(error).__name__}: {_words(error)[:ERROR_CHARACTERS]}", failed=True)


def _words(error: BaseException) -> str:
    try:
        return str(error).encode("utf-8", "backslashreplace").decode()
    except Exception:
        return "it cannot say what went wrong"
