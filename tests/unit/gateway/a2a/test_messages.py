"""What a message says."""

import pytest
from a2a.types import Message, Part, Role, SendMessageRequest
from a2a.utils.errors import ContentTypeNotSupportedError

from turnwise.facts.content import BlobPart, TextPart
from turnwise.facts.errors import RequestInvalid
from turnwise.gateway.a2a.messages import IncomingMessage


def request(*parts: Part, role: Role = Role.ROLE_USER, metadata: object = None, outer: object = None) -> SendMessageRequest:
    asked = SendMessageRequest(message=Message(message_id="m", role=role, parts=parts or [Part(text="hi")]))
    asked.message.metadata.update(metadata or {})
    asked.metadata.update(outer or {})
    return asked


def test_metadata_is_for_agents_but_for_what_has_a_meaning() -> None:
    known = {"agent": "desk", "user": "ann", "callId": "c", "channel": "web", "user_kind": "guest", "n": 1}
    given = IncomingMessage(request(metadata=known, outer={"n": 2, "more": [1.5]}))
    assert (given.agent, given.user, given.call) == ("desk", "ann", "c")
    assert (given.context.channel, given.context.user_kind) == ("web", "guest")
    assert given.context.attributes == {"n": 1, "more": [1.5]}


def test_tasks_that_it_refers_to() -> None:
    asked = request()
    asked.message.reference_task_ids.append("t")
    assert IncomingMessage(asked).context.attributes == {"a2a.reference_task_ids": ["t"]}


def test_parts() -> None:
    blob = Part(raw=b"x", filename="a")
    url = Part(url="data:,hi", media_type="text/css")
    assert IncomingMessage(request(Part(text="t"), blob, url)).content.parts == (
        TextPart(text="t"),
        BlobPart(data=b"x", mime_type="application/octet-stream", name="a"),
        BlobPart(data=b"hi", mime_type="text/css"),
    )


@pytest.mark.parametrize("kind", ["image/png", "Text/Markdown", "application/json; charset=utf-8", "application/pdf"])
def test_kinds_of_files_that_are_taken(kind: str) -> None:
    assert IncomingMessage(request(Part(raw=b"x", media_type=kind))).content.parts


@pytest.mark.parametrize("kind", ["application/x-odd", "odd", "/", "x" * 999])
def test_any_other_is_not(kind: str) -> None:
    for part in (Part(raw=b"x", media_type=kind), Part(url="data:,x", media_type=kind)):
        with pytest.raises(ContentTypeNotSupportedError) as refused:
            IncomingMessage(request(part))
        assert refused.value.data == {"field": "message.parts[0].mediaType"}


def test_what_is_no_message_of_a_users() -> None:
    with pytest.raises(RequestInvalid, match="user messages"):
        IncomingMessage(request(role=Role.ROLE_AGENT))
    with pytest.raises(RequestInvalid) as refused:
        IncomingMessage(request(Part(text="a"), Part()))
    assert refused.value.where == ("message.parts[1]",)
    with pytest.raises(RequestInvalid) as refused:
        IncomingMessage(request(metadata={"agent": 1}))
    assert refused.value.where == ("metadata.agent",)


def test_what_the_data_says_by_name() -> None:
    one, other, text = Part(), Part(), Part(text="t")
    one.data.struct_value.update({"approved": True, "n": 1})
    other.data.list_value.extend([1])
    assert IncomingMessage(request(one, other, text)).data == {"approved": True, "n": 1}
