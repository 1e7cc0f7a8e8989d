"""Log lines that programs can read: one JSON object each; or, at a terminal, that people can. Nothing secret is in them, nor
what an exception says, which may be a user's text.
"""

import json
import logging
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import IO, Any, Literal

from turnwise.telemetry.log_context import log_context

_MASK = "***"
_MARKS = re.compile(r"tw_|eyJ|sk-|AIza|[:=]|(?i:bearer|basic)")
"""What each rule needs to find: most texts have none of it, and to look for it is twenty times as fast as all rules."""
# Each keeps what says which secret it was. Of an API key that is its id; the other 43 characters prove it.
# None looks again and again at what it has passed: a text may be long, and written by whoever wants that.
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"tw_([0-9a-f]{12})_[A-Za-z0-9_-]+"), rf"tw_\1_{_MASK}"),
    (re.compile(r"\btw_(?![0-9a-f]{12}_\*\*\*)[A-Za-z0-9_-]{16,}"), f"tw_{_MASK}"),
    # A token begins a word, or stands behind a hyphen in it. Only words with a dot behind them are searched for one.
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
    """The text with `***` in place of each secret that is known by its form. What was taken out once stays so."""
    if _MARKS.search(text) is None:
        return text
    for pattern, instead in _RULES:
        text = pattern.sub(instead, text)
    return text


CHARACTERS = 8_000
"""How long a message, or another text of a line, may be."""
FRAMES, CAUSES = 20, 5
"""How many of the innermost calls are told of an exception, and how many causes."""

Form = Literal["json", "text"]

_RECORD_FIELDS = frozenset(logging.LogRecord("", 0, "", 0, "", None, None).__dict__) | {"message", "asctime", "taskName"}
_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_MISLEADING = (0x061C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x206A), 0xFEFF)
_SURROGATES = range(0xD800, 0xE000)
_ESCAPED = {code: f"\\u{code:04x}" for code in (*_CONTROLS, *_MISLEADING, *_SURROGATES)}
_ESCAPED |= {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}


class Redacting(logging.Filter):
    """Takes secrets out of the message and arguments of a record, for whichever handler comes next."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redacted(_message(record)), None
        return True


class JsonLines(logging.Formatter):
    """One JSON object a line. time is UTC; request, session, invocation and app say what was being done, where that is known;
    whatever a call gave as `extra` follows. exception: its type, those of its causes, and where it was raised. debug: also
    what it says.
    """

    def __init__(self, *, debug: bool = False) -> None:
        super().__init__()
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
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
        return encoded.translate(_ESCAPED)  # what is left of these stands inside of strings


class TextLines(logging.Formatter):
    """One line for people, and the lines of an exception's calls below it. debug: also what exceptions say."""

    def __init__(self, *, debug: bool = False) -> None:
        super().__init__()
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
        doing = "".join(f" {name}={value}" for name, value in _context_fields().items())
        line = f"{_time(record)} {record.levelname.lower():7} {record.name}: {_text(_message(record))}{doing}"
        lines = [line]
        if record.exc_info and record.exc_info[1] is not None:
            raised = _exception(record.exc_info[1], debug=self._debug)
            for each in (raised, *raised["causes"]):
                said = f": {each['message']}" if "message" in each else ""
                lines += [f"  {each['type']}{said}", *(f"    {call}" for call in each["calls"])]
        return "\n".join(line.translate(_ESCAPED) for line in lines)


@contextmanager
def logging_to(
    stream: IO[str], *, form: Form | None = None, level: str | int = logging.INFO, debug: bool = False
) -> Iterator[None]:
    """In the block, what Turnwise logs from that level on goes to the stream, and the warnings of everybody else.

    form: None = `text` if the stream is a terminal, else `json`. Where the program itself has said where log lines go, nothing
    is changed.
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
        # Otherwise logging itself would print the arguments.
        return f"{record.msg} (with arguments that do not fit)"


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def _context_fields() -> dict[str, str]:
    doing = log_context()
    known = {"request": doing.request, "session": doing.session, "invocation": doing.invocation, "app": doing.app}
    return {name: _text(value) for name, value in known.items() if value}


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    given = record.__dict__.items()
    return {_text(name): _value(value) for name, value in given if name not in _RECORD_FIELDS and not name.startswith("_")}


def _value(value: Any) -> str | int | float | bool | None:
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return _text(str(value))


def _text(text: str) -> str:
    shown = redacted(text)
    return shown if len(shown) <= CHARACTERS else f"{shown[:CHARACTERS]}…"


def _exception(error: BaseException, *, debug: bool) -> dict[str, Any]:
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
    calls = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        calls.append(f"{code.co_filename}:{traceback.tb_lineno} {code.co_qualname}")
        traceback = traceback.tb_next
    return calls[-FRAMES:]
