"""Where an exception was raised, as far as it is its developer's own code."""

import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

_SHOWN = 8
_OURS = str(Path(__file__).resolve().parents[2])
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def own_frames(error: BaseException) -> list[str]:
    """The places the error came through, as `file:line in function`, outermost first, at most 8: the innermost ones.

    Only those outside of Turnwise, Python's library and installed packages. Without any values.
    """
    outside = (_OURS, "<frozen", *_INSTALLED)
    own = [_place(trace) for trace in _traces(error) if not trace.tb_frame.f_code.co_filename.startswith(outside)]
    return own[-_SHOWN:]


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
