"""Messages that are refused or changed before they are stored."""

from typing import Any

import pytest
from busy_play import MakeRunner, SlowGate
from runner_play import ask, key, log

from turnwise import Content
from turnwise.facts.content import BlobPart, TextPart, text_content
from turnwise.facts.errors import MessageBlocked, MessageError, MessageTooLarge
from turnwise.facts.messages import MessageContext
from turnwise.ports.guardrail import GuardrailVerdict
from turnwise.testing.fakes import FunctionGuardrail


async def test_nothing_is_kept_of_a_message_that_is_blocked_though_the_session_is_busy(make_runner: MakeRunner) -> None:
    """A18, C13: guardrails see it before the inbox does; that it came, and who blocked it, is put on record in its turn."""
    gate = SlowGate()
    guard = FunctionGuardrail("cards", lambda _, text: GuardrailVerdict("block", reason="no") if "4111" in text else None)
    runner = make_runner(gate.agent, guardrails=[guard])
    first = await runner.start("slow", user="ada", session="s")
    await gate.began.wait()
    with pytest.raises(MessageBlocked):
        await runner.start("my card is 4111", user="ada", session="s", message_id="card")
    gate.go.set()
    assert (await first.result()).text == "answer to slow"
    await runner.idle()
    assert [text for _, text in await log(runner)] == ["slow", "answer to slow", ""]
    event = (await runner.store.events(key()))[-1]
    assert event.content is None
    assert [(each.guardrail, each.action, each.reason) for each in event.actions.guarded] == [("cards", "block", "no")]
    receipt = await runner.store.inbox.receipt(key(), "card")
    assert receipt is not None
    assert (receipt.state, receipt.message.content.parts) == ("started", ())
    with pytest.raises(MessageBlocked, match="'cards' blocked the message: no"):
        await runner.start("my card is 4111", user="ada", session="s", message_id="card")


def judge(_: str, text: str) -> GuardrailVerdict:
    return GuardrailVerdict("rewrite", text_content(text.replace("4111", "****")))


@pytest.mark.parametrize("queued", [False, True])
async def test_what_is_kept_of_a_message_is_what_the_guardrails_left(make_runner: MakeRunner, queued: bool) -> None:
    """A18: in the log, and in the inbox's record, also when it had to queue."""
    gate = SlowGate()
    runner = make_runner(gate.agent, guardrails=[FunctionGuardrail("g", judge)])
    if queued:
        await runner.start("slow", user="ada", session="s")
        await gate.began.wait()
        gate.go.set()
    assert (await ask(runner, "card 4111", message_id="m")).text == "answer to card ****"
    receipt = await runner.store.inbox.receipt(key(), "m")
    assert receipt is not None
    assert receipt.message.content.text == "card ****"
    assert "4111" not in str(await log(runner))


async def test_what_is_refused_when_it_is_regenerated_keeps_its_answer(make_runner: MakeRunner) -> None:
    """A44: the guardrails look first; only then is anything hidden."""
    closed: list[bool] = []
    block = GuardrailVerdict("block", reason="no")
    guardrail = FunctionGuardrail("g", lambda place, _: block if closed and place == "message" else None)
    runner = make_runner(SlowGate().agent, guardrails=[guardrail])
    first = await ask(runner, "one")
    closed.append(True)
    with pytest.raises(MessageBlocked):
        await runner.regenerate(key(), first.invocation_id)
    assert await log(runner) == [("user", "one"), ("gated", "answer to one")]


SURROGATE = "\ud83d"
LONG = "y" * 300_000


def raw(json: str) -> Content:
    """Content as it comes over a wire, with fields that we do not know."""
    return Content.model_validate_json(json)


TOO_LARGE = [
    LONG,
    raw(f'{{"parts": [{{"kind": "text", "text": "x"}}, {{"kind": "new", "stuff": "{LONG}"}}]}}'),
    raw(f'{{"parts": [{{"kind": "text", "text": "x", "extra": "{LONG}"}}]}}'),
    raw(f'{{"parts": [{{"kind": "text", "text": "x"}}], "extra": "{LONG}"}}'),
    Content(parts=(TextPart(text="x"), BlobPart(data=b"1", name=LONG))),
]


@pytest.mark.parametrize("message", TOO_LARGE, ids=range(len(TOO_LARGE)))
async def test_a_message_is_measured_whole(make_runner: MakeRunner, message: str | Content) -> None:
    """A25: whatever would be stored counts, known to us or not."""
    runner = make_runner(SlowGate().agent)
    with pytest.raises(MessageTooLarge):
        await ask(runner, message)
    with pytest.raises(MessageTooLarge):
        await ask(runner, "x", context=MessageContext(attributes={"a": LONG}))
    assert await runner.store.open(key()) is None


@pytest.mark.parametrize(
    ("message", "options"),
    [
        (f"x{SURROGATE}", {}),
        (Content(parts=(TextPart(text="x"), BlobPart(data=b"1", name=SURROGATE))), {}),
        ("x", {"context": MessageContext(attributes={"a": SURROGATE})}),
        ("x", {"context": MessageContext(direct_agent_id=SURROGATE)}),
        ("x", {"message_id": SURROGATE}),
        ("x", {"session": SURROGATE}),
        (None, {}),
    ],
)
async def test_a_message_that_cannot_be_stored_is_refused(make_runner: MakeRunner, message: Any, options: Any) -> None:
    """A25: with a typed error, in a busy session too, and without a trace."""
    gate = SlowGate()
    runner = make_runner(gate.agent)
    first = await runner.start("slow", user="ada", session="s")
    await gate.began.wait()
    with pytest.raises(MessageError):
        await ask(runner, message, **options)
    gate.go.set()
    assert (await first.result()).text == "answer to slow"
    assert await runner.store.inbox.queued(key()) is None
