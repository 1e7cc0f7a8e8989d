"""One request to a gateway, as a value."""

import json

import pytest

from turnwise.client.connection import ApiRequest, escape_path, get, post, session_path
from turnwise.facts.content import BlobPart, Content
from turnwise.facts.errors import RequestInvalid
from turnwise.facts.messages import MessageContext


def test_a_body_is_json() -> None:
    assert post("/x", {"a": "ä", "b": [1, None]}).written() == b'{"a":"\\u00e4","b":[1,null]}'
    assert get("/x", limit=2) == ApiRequest("GET", "/x", {"limit": 2})
    assert get("/x").written() is None
    assert ApiRequest("PUT", "/x", content=b"\x00").written() == b"\x00"


def deep(levels: int = 5_000) -> list[object]:
    found: list[object] = []
    for _ in range(levels):
        found = [found]
    return found


def test_facts_are_written_as_json_reads_them() -> None:
    content = Content(parts=(BlobPart(data=b"\xff"),))
    written = post("/x", {"content": content}).written()
    assert written is not None
    assert Content.model_validate_json(json.dumps(json.loads(written)["content"])) == content


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        object(),
        {1, 2},
        deep(),
        MessageContext(attributes={"x": float("nan")}),
        MessageContext.model_construct(attributes={"x": deep()}),
    ],
    ids=["nan", "infinite", "an object", "a set", "deep", "nan in a fact", "deep in a fact"],
)
def test_what_json_cannot_write_is_not_sent(value: object) -> None:
    with pytest.raises(RequestInvalid, match="cannot be sent as JSON"):
        post("/x", {"a": value}).written()


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("m-1", "m-1"),
        ("a b?c#d%", "a%20b%3Fc%23d%25"),
        ("letters/2026.txt", "letters/2026.txt"),
        ("../up/./x", "%2E%2E/up/%2E/x"),
        ("ä", "%C3%A4"),
        ("a\nb\x7f", "a%0Ab%7F"),
    ],
)
def test_names_are_parts_of_a_path_and_never_ways_through_it(name: str, path: str) -> None:
    assert escape_path(name) == path


def test_what_utf_8_cannot_write_is_no_name() -> None:
    with pytest.raises(RequestInvalid, match="UTF-8"):
        escape_path("\ud800")


def test_a_session_is_one_part_of_a_path() -> None:
    assert session_path("s 1", "messages", "m/1") == "/sessions/s%201/messages/m/1"


@pytest.mark.parametrize("session", ["", ".", "..", "a/b", "/"])
def test_what_can_be_no_session_is_refused(session: str) -> None:
    with pytest.raises(RequestInvalid, match="cannot be part of a URL"):
        session_path(session)
