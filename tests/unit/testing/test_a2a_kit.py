"""The conformance kit's app, without the protocol. (With it: tests/integration/gateway/test_a2a_kit*.py.)"""

import pytest
from runner_play import reason

from turnwise.facts.content import BlobPart, DataPart, text_content
from turnwise.facts.events import USER
from turnwise.ports.guardrail import ALLOW
from turnwise.runner import Result, Runner
from turnwise.testing.a2a_kit import REFUSED, ByMessageId, Refusing, kit_app, kit_gateway
from turnwise.testing.fakes import RecordingHooks
from turnwise.testing.selector_suite import request_for

# What the kit's messages begin with, as its scenarios have them.
BEGINNINGS = (
    *("tck-complete-task", "tck-delayed-complete", "tck-artifact-text", "tck-artifact-file", "tck-artifact-file-url"),
    *("tck-artifact-data", "tck-message-response", "tck-input-required", "tck-reject-task", "tck-stream-001"),
    *("tck-stream-002", "tck-stream-003", "tck-stream-ordering-001", "tck-stream-artifact-text"),
    *("tck-stream-artifact-file", "tck-stream-artifact-chunked", "test-resubscribe-message-id"),
)


async def at_once(seconds: float) -> None:
    """Waits for nothing."""


async def sent(app: Runner, begins: str) -> Result:
    """What comes of a message whose id begins so, in a session of its own."""
    invocation = await app.start("Hello", user="ada", session=begins, message_id=f"{begins}-1f0c3a77")
    return await invocation.result()


@pytest.mark.parametrize("begins", BEGINNINGS)
async def test_each_beginning_has_an_agent_that_comes_to_its_end(begins: str) -> None:
    app = kit_app(pause=at_once)
    try:
        result = await sent(app, begins)
        assert result.selection is not None
        assert (result.selection.agent, result.selection.method) == (begins, "message-id")
        assert reason(result) == ("waiting" if begins == "tck-input-required" else "completed")
        assert any(event.content and event.content.parts for event in result.events if event.author != USER)
    finally:
        await app.close()


async def test_what_begins_otherwise_is_the_roots_and_so_is_a_preview() -> None:
    app = kit_app(pause=at_once)
    try:
        result = await sent(app, "hello")
        assert (result.selection and result.selection.agent, result.text) == ("kit", "You said: Hello")
        assert (await app.select("Hello")).agent == "kit"
    finally:
        await app.close()


async def test_files_and_data_are_what_the_kit_looks_for() -> None:
    app = kit_app(pause=at_once)
    try:
        parts = [
            part
            for begins in ("tck-stream-artifact-file", "tck-artifact-data")
            for event in (await sent(app, begins)).events
            if event.author != USER and event.content
            for part in event.content.parts
        ]
        assert parts == [
            BlobPart(data=b"tck", mime_type="text/plain", name="output.txt"),
            DataPart(data={"key": "value", "count": 42}),
        ]
        await sent(app, "tck-artifact-file")
        assert app.artifacts is not None
        kept = await app.artifacts.load(app.key("ada", "tck-artifact-file"), "output.txt")
        assert kept is not None
        assert (kept.data, kept.info.mime_type) == (b"tck", "text/plain")
    finally:
        await app.close()


async def test_what_takes_a_while_takes_twice_the_kits_timeout() -> None:
    asked: list[float] = []

    async def pause(seconds: float) -> None:
        asked.append(seconds)

    hooks = RecordingHooks()
    app = kit_app(pause=pause, hooks=[hooks])
    try:
        for begins in ("tck-delayed-complete", "test-resubscribe-message-id"):
            await sent(app, begins)
        assert asked == [2.0, 4.0]
        assert [end for _, end in hooks.ends] == ["completed", "completed"]
    finally:
        await app.close()


async def test_the_longest_name_that_the_id_begins_with_is_meant() -> None:
    tree = kit_app().tree
    selector = ByMessageId(tree)
    for id_, meant in (
        ("tck-artifact-file-url-1", "tck-artifact-file-url"),
        ("tck-artifact-file-1", "tck-artifact-file"),
        ("tck-artifact-f", None),
        ("", None),
        (None, None),
    ):
        verdict = await selector.select(request_for(tree, "Hello", message_id=id_))
        assert (verdict.agent, verdict.outcome) == (meant, "chosen" if meant else "abstained")


async def test_only_the_answer_of_one_agent_is_refused() -> None:
    guardrail, said = Refusing(), text_content("anything")
    assert (await guardrail.check("answer", said, REFUSED)).action == "block"
    assert await guardrail.check("answer", said, "tck-complete-task") == ALLOW
    assert await guardrail.check("message", said, None) == ALLOW


def test_the_gateway_speaks_it_to_everybody_here_and_may_notify_them() -> None:
    config = kit_gateway()
    assert (config.auth, config.host) == (None, "127.0.0.1")
    assert (config.protocols.a2a.on, config.protocols.a2a.private_pushes) == (True, True)
