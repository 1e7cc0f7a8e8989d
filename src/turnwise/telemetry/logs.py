"""Log lines, JSON for programs and text for terminals, and their context: the current request and message.

They hold no secrets and, unless `debug`, no exception messages, which may quote a user. New tasks inherit the context.
"""

import json
import logging
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import IO, Any, Literal, NamedTuple

from turnwise.facts.sessions import SessionKey


class LogContext(NamedTuple):
    """The request and the message that the current task serves. Fields without a value are empty."""

    request: str = ""
    """The id of the HTTP request."""
    app: str = ""
    """The app of the message that is being answered."""
    session: str = ""
    """The session of that message."""
    invocation: str = ""
    """The invocation of that message."""
    is_local: bool = True
    """False when the message came from an inbox or from a dead process. Then the current trace has nothing to do with it."""


_EMPTY = LogContext()
_CONTEXT: ContextVar[LogContext] = ContextVar("turnwise_about", default=_EMPTY)


def log_context() -> LogContext:
    """Returns the context of the current task."""
    return _CONTEXT.get()


@contextmanager
def request_context(request: str) -> Iterator[None]:
    """Sets the request id for the duration of the block."""
    with _with_context(LogContext(request=request)):
        yield


@contextmanager
def message_context(key: SessionKey, invocation: str = "", *, is_local: bool = True) -> Iterator[None]:
    """Sets the message for the duration of the block. With `is_local` the request id is kept, else it is cleared."""
    request = _CONTEXT.get().request if is_local else ""
    with _with_context(LogContext(request, key.app, key.id, invocation, is_local)):
        yield


@contextmanager
def _with_context(context: LogContext) -> Iterator[None]:
    token = _CONTEXT.set(context)
    try:
        yield
    finally:
        _CONTEXT.reset(token)


_MASK = "***"
_MARKS = re.compile(r"tw_|eyJ|sk-|AIza|[:=]|(?i:bearer|basic)")
"""Every rule needs one of these marks. Most texts have none, and this search is twenty times as fast as all rules."""
# Each rule keeps the part that identifies the secret; of an API key that is its id.
# Each rule runs in linear time: the text may be long and written by an attacker.
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"tw_([0-9a-f]{12})_[A-Za-z0-9_-]+"), rf"tw_\1_{_MASK}"),
    (re.compile(r"\btw_(?![0-9a-f]{12}_\*\*\*)[A-Za-z0-9_-]{16,}"), f"tw_{_MASK}"),
    # A token begins a word or follows a hyphen in it. Only words followed by a dot are searched.
    (
        re.compile(
            r"(?<![A-Za-z0-9_-])(?=[A-Za-z0-9_-]++\.)((?:[A-Za-z0-9_]*+-)*?)eyJ[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+){1,4}+"
        ),
        rf"\1{_MASK}",
    ),
    (re.compile(r"\b(sk-(?:ant-|proj-)?)[A-Za-z0-9_-]{16,}"), rf"\1{_MASK}"),
    (re.compile(r"\bAIza[A-Za-z0-9_-]{30,}"), _MASK),
    (re.compile(r"(?i)\b(bearer)(?:\s+|%20)(?!\*\*\*)[A-Za-z0-9._~+/=*-]{6,}"), rf"\1 {_MASK}"),
    (re.compile(r"(?i)\b(basic)\s+(?=[A-Za-z+/]*[0-9=])[A-Za-z0-9+/=]{8,}"), rf"\1 {_MASK}"),
    # Up to the last @ before a space: a password may hold an @, or a /, that should have been escaped.
    (re.compile(r"(?<!\S)((?>\S*?://[^\s:/@]*:(?!\*\*\*@)))\S+@"), rf"\1{_MASK}@"),
    (
        re.compile(
            r"(?i)((?:password|passwd|secret|token|credential|authorization|api[-_]?key|access[-_]?key|private[-_]?key)"
            r"[\"']?\s*[=:]\s*[\"']?)(?!\*\*\*|bearer\b|basic\b)[^\s\"'&,;)}\]]+"
        ),
        rf"\1{_MASK}",
    ),
)


def redacted(text: str) -> str:
    """Returns the text with `***` in place of each secret of a known form. Idempotent."""
    if _MARKS.search(text) is None:
        return text
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


CHARACTERS = 8_000
"""Longest message or other text of a log line."""
FRAMES, CAUSES = 20, 5
"""Most stack frames of an exception, the innermost ones, and most causes."""

Form = Literal["json", "text"]

_RECORD_FIELDS = frozenset(logging.LogRecord("", 0, "", 0, "", None, None).__dict__) | {"message", "asctime", "taskName"}
_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_MISLEADING = (0x061C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x206A), 0xFEFF)
_SURROGATES = range(0xD800, 0xE000)
_ESCAPED = {code: f"\\u{code:04x}" for code in (*_CONTROLS, *_MISLEADING, *_SURROGATES)}
_ESCAPED |= {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}


class Redacting(logging.Filter):
    """A logging filter that removes secrets from the message and arguments of a record."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redacted(_message(record)), None
        return True


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object per line.

    `time` is UTC. `request`, `session`, `invocation` and `app` come from the log context; the fields of `extra` follow.
    `exception` holds its type, its stack frames and its causes.

    Args:
        debug: Also write the exception's message.
    """

    def __init__(self, *, debug: bool = False) -> None:
        super().__init__()
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
        """Returns a record as one line of JSON."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _text(_message(record)),
        }
        line |= _context_fields() | {name: value for name, value in _extras(record).items() if name not in line}
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = _exception(record.exc_info[1], debug=self._debug)
        encoded = json.dumps(line, ensure_ascii=False, allow_nan=False)
        return encoded.translate(_ESCAPED)  # JSON has these characters only inside strings


class TextLines(logging.Formatter):
    """Formats a record as one line of text, with an exception's stack frames below it.

    Args:
        debug: Also write the messages of exceptions.
    """

    def __init__(self, *, debug: bool = False) -> None:
        super().__init__()
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
        """Returns a record as text, with exceptions on further lines."""
        fields = "".join(f" {name}={value}" for name, value in _context_fields().items())
        line = f"{_time(record)} {record.levelname.lower():7} {record.name}: {_text(_message(record))}{fields}"
        lines = [line]
        if record.exc_info and record.exc_info[1] is not None:
            raised = _exception(record.exc_info[1], debug=self._debug)
            for error in (raised, *raised["causes"]):
                message = f": {error['message']}" if "message" in error else ""
                lines += [f"  {error['type']}{message}", *(f"    {call}" for call in error["calls"])]
        return "\n".join(line.translate(_ESCAPED) for line in lines)


@contextmanager
def logging_to(
    stream: IO[str], *, form: Form | None = None, level: str | int = logging.INFO, debug: bool = False
) -> Iterator[None]:
    """Sends log lines to a stream for the duration of the block: Turnwise's from `level` on, other libraries' warnings.

    Does nothing when the program has configured log handlers itself.

    Args:
        stream: Where the lines go.
        form: `json` or `text`; None = `text` for a terminal, else `json`.
        level: The lowest level of Turnwise's own lines.
        debug: Also write the messages of exceptions.
    """
    ours, root = logging.getLogger("turnwise"), logging.getLogger()
    if ours.hasHandlers():
        yield
        return
    readable = stream.isatty() if form is None else form == "text"
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextLines(debug=debug) if readable else JsonLines(debug=debug))
    handler.addFilter(Redacting())
    before = ours.level
    ours.setLevel(level)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        ours.setLevel(before)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        # Otherwise the logging module would print the arguments.
        return f"{record.msg} (with arguments that do not fit)"


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def _context_fields() -> dict[str, str]:
    context = log_context()
    known = {"request": context.request, "session": context.session, "invocation": context.invocation, "app": context.app}
    return {name: _text(value) for name, value in known.items() if value}


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    fields = record.__dict__.items()
    return {_text(name): _value(value) for name, value in fields if name not in _RECORD_FIELDS and not name.startswith("_")}


def _value(value: Any) -> str | int | float | bool | None:
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return _text(str(value))


def _text(text: str) -> str:
    shown = redacted(text)
    return shown if len(shown) <= CHARACTERS else f"{shown[:CHARACTERS]}…"


def _exception(error: BaseException, *, debug: bool) -> dict[str, Any]:
    """Returns an exception with its causes and calls; its message only with `debug`."""
    causes: list[BaseException] = []
    cause = _cause(error)
    while cause is not None and len(causes) < CAUSES and cause is not error and cause not in causes:
        causes.append(cause)
        cause = _cause(cause)
    first, *others = ({"type": _type(each), "calls": _calls(each.__traceback__)} for each in (error, *causes))
    said = {"message": _message_of(error)} if debug else {}
    return {**first, **said, "causes": others}


def _cause(error: BaseException) -> BaseException | None:
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _type(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _message_of(error: BaseException) -> str:
    try:
        return _text(str(error))
    except Exception:
        return ""


def _calls(traceback: TracebackType | None) -> list[str]:
    """Returns the innermost calls of a traceback, as `file:line function`."""
    calls = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        calls.append(f"{code.co_filename}:{traceback.tb_lineno} {code.co_qualname}")
        traceback = traceback.tb_next
    return calls[-FRAMES:]
