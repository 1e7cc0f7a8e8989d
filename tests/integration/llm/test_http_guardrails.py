"""Guardrails around a model over real HTTP: what it is sent, what it calls, and what is streamed of its answer (C13)."""

import json
from collections.abc import Callable

from llm_http import Wire, calls, results
from llm_play import told
from runner_play import ask, reason

from turnwise import Event, Runner
from turnwise.agents.llm import LlmAgent
from turnwise.guardrails.personal_data import PersonalData
from turnwise.guardrails.secrets import Secrets

Process = Callable[..., Runner]
MAIL = "bob.smith@example.com"
CARD = "4111 1111 1111 1111"


async def test_what_a_guardrail_takes_out_of_a_stream_is_in_no_piece(process: Process, wire: Wire) -> None:
    """However the service cuts it; the rest is shown while it comes."""
    long = "There is something to be told of him. " * 6
    wire.say(f"{long}Write to {MAIL} or pay with {CARD}. {long}", "Gladly.")
    runner = process(LlmAgent("clerk", model=wire.model()), guardrails=[PersonalData()])
    pieces: list[Event] = []
    stored: list[Event] = []
    async for event in runner.run("Who is Bob?", user="ada", session="s"):
        (pieces if event.partial else stored).append(event)
    answer = stored[-1]
    assert answer.text == f"{long}Write to [e-mail] or pay with [card]. {long}"
    shown = "".join(event.text for event in pieces)
    assert len(pieces) > 5
    assert answer.text.startswith(shown)
    assert len(shown) > len(long)
    assert {guarded.guardrail for guarded in answer.actions.guarded} == {"personal-data"}
    everything = str(await runner.store.events(runner.key("ada", "s"))) + str(pieces)
    assert MAIL not in everything
    assert "4111" not in everything
    await ask(runner, "thanks")
    assert MAIL not in json.dumps(wire.bodies()[-1])


async def test_what_a_guardrail_blocks_in_a_stream(process: Process, wire: Wire) -> None:
    """The stream ends there, the reason is the answer, and the conversation goes on."""
    secret = "sk-proj-" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7dE9"
    wire.say(f"You can use the key {secret} for that, and then all is well. " * 2, "Gladly.")
    runner = process(LlmAgent("clerk", model=wire.model()), guardrails=[Secrets(action="block")])
    events = [event async for event in runner.run("which key?", user="ada", session="s")]
    answer = next(event for event in reversed(events) if not event.partial and event.content)
    assert answer.actions.blocked_by == "secrets"
    assert secret[:12] not in str(events)
    assert (await ask(runner, "thanks")).text == "Gladly."
    assert secret[:12] not in json.dumps(wire.bodies()[-1])


async def test_what_a_guardrail_takes_out_of_a_message_never_leaves(process: Process, wire: Wire) -> None:
    wire.say("Noted.")
    runner = process(LlmAgent("clerk", model=wire.model()), guardrails=[PersonalData()])
    assert (await ask(runner, f"I am {MAIL}, my card is {CARD}")).text == "Noted."
    [line] = wire.sent()[0]
    assert line.text == "I am [e-mail], my card is [card]"


async def test_a_call_that_a_guardrail_blocks_is_not_made(process: Process, wire: Wire) -> None:
    """The model learns that, and by whom; the one beside it is made."""
    sent: list[str] = []

    async def send(text: str) -> str:
        sent.append(text)
        return "sent"

    wire.say(calls(("send", {"text": f"to {MAIL}"}), ("send", {"text": "to all"})), "One of the two.", "Gladly.")
    runner = process(
        LlmAgent("clerk", model=wire.model(), tools=[send]), guardrails=[PersonalData(action="block", places=["tool_call"])]
    )
    done = await ask(runner, "send it")
    assert (done.text, reason(done), sent) == ("One of the two.", "completed", ["to all"])
    assert "personal-data blocked it" in str(told(done)[0])
    blocked, made = results(wire.sent()[1])
    assert "personal-data" in blocked
    assert made == "send: sent"
    assert MAIL not in json.dumps(wire.bodies()[1])
    assert (await ask(runner, "thanks")).text == "Gladly."
