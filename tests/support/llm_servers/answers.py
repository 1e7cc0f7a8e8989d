"""What a played service can say."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

Body = dict[str, Any]


class Fault(NamedTuple):
    """An error instead of an answer. kind: the service's word for it; empty = its usual word for the status."""

    status: int
    retry_after: str | None = None
    kind: str = ""
    message: str = "The service is not well."


class Garbage(NamedTuple):
    """A body that is no answer, with status 200."""

    text: str


class Answer(NamedTuple):
    """An answer, streamed when the request says so.

    calls: tools with their arguments; a string is sent as it is. ids: of the calls; empty = the service's own, counting up.
    finish: `stop` or `calls` by what is in it, or one of the others. cut_after: so many events of a stream are sent (the third
    has words in all formats), then it ends as `cut` says: the connection breaks, the body just ends, or an error comes in the
    stream. wait: it is waited for after the third event of a stream, or before the whole answer.
    """

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Any] | str], ...] = ()
    thinking: str = ""
    ids: tuple[str, ...] = ()
    finish: Literal["", "length", "filtered"] = ""
    input_tokens: int = 11
    cached_tokens: int = 0
    output_tokens: int = 7
    cut_after: int | None = None
    cut: Literal["broken", "ended"] | Fault = "broken"
    wait: threading.Event | None = None


Said = str | Answer | Fault | Garbage
Sayable = Said | Callable[[Body], Said]


def pieces(text: str, size: int = 0) -> list[str]:
    """The text in small pieces, as services stream it. A long text has about a thousand."""
    size = size or max(5, len(text) // 1_000)
    return [text[start : start + size] for start in range(0, len(text), size)]
