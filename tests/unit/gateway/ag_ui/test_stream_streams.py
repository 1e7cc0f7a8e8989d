"""Texts in pieces."""

from typing import Any

from turnwise.gateway.ag_ui.stream import TextStreams


def finished(streams: TextStreams, id_: str, text: str) -> tuple[list[Any], bool]:
    """What the whole adds, and whether the client has it as it is."""
    whole, told = streams.complete(id_, text), []
    while True:
        try:
            told.append(next(whole))
        except StopIteration as end:
            return told, end.value


def test_several_at_once() -> None:
    streams = TextStreams("TEXT_MESSAGE")
    told = [*streams.chunk("1", "a", 0), *streams.chunk("2", "x", 0), *streams.chunk("1", "b", 1)]
    assert [(wire["type"], wire["messageId"], wire.get("delta")) for wire in told] == [
        ("TEXT_MESSAGE_START", "1", None),
        ("TEXT_MESSAGE_CONTENT", "1", "a"),
        ("TEXT_MESSAGE_START", "2", None),
        ("TEXT_MESSAGE_CONTENT", "2", "x"),
        ("TEXT_MESSAGE_CONTENT", "1", "b"),
    ]
    assert streams.open == ["1", "2"]
    rest, fits = finished(streams, "1", "abc")
    assert ([wire.get("delta") for wire in rest], fits) == (["c", None], True)
    assert [wire["messageId"] for wire in streams.end_all()] == ["2"]
    assert [*streams.end("2")] == []


def test_what_the_client_has_otherwise_is_not_told_on() -> None:
    streams = TextStreams("TEXT_MESSAGE")
    assert [*streams.chunk("1", "ab", 0)]
    rest, fits = finished(streams, "1", "xy")
    assert ([wire["type"] for wire in rest], fits) == (["TEXT_MESSAGE_END"], False)


def test_a_span_around_each() -> None:
    streams = TextStreams("REASONING_MESSAGE", "REASONING")
    told = [*streams.chunk("1", "a", None, subagentRunId="s"), *streams.end("1")]
    assert [wire["type"] for wire in told] == [
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
    ]
    assert {wire["subagentRunId"] for wire in told} == {"s"}
