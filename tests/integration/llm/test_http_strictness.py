"""What only strict services refuse, over real HTTP: calls without tools, and calls without the thoughts before them."""

from collections.abc import Callable
from typing import Any

from llm_http import Line, Wire, calls, results
from runner_play import ask, key, reason

from turnwise import Runner
from turnwise.agents.llm import LlmAgent
from turnwise.facts.content import Content
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict
from turnwise.testing.models import ScriptedModel, calls as scripted
from turnwise.tools.function import tool
from turnwise.transcript.view import Budget

Process = Callable[..., Runner]
THINKS: dict[str, Any] = {"anthropic_thinking": {"type": "enabled", "budget_tokens": 1_024}, "max_tokens": 4_096}


def found(number: str) -> str:
    return f"{number} was sent"


async def find_order(number: str) -> str:
    """Finds an order."""
    return found(number)


async def test_a_summary_is_asked_for_with_calls_as_words(process: Process, wire: Wire) -> None:
    """It has no tools; what was called and found is in the notes' material all the same."""
    wire.say(*["They ask for orders."] * 8)
    turns = [said for n in range(4) for said in (scripted("find_order", {"number": f"O-{n}"}), f"O-{n} is on its way.")]

    @tool(name="find_order")
    async def find(number: str) -> str:
        return found(number)

    clerk = LlmAgent(
        "clerk",
        model=ScriptedModel(*turns),
        tools=[find],
        summary_model=wire.model(),
        history=Budget(tokens=24_000, events=10),
    )
    runner = process(clerk)
    for n in range(4):
        assert reason(await ask(runner, f"Where is O-{n}?")) == "completed"
        await runner.recover()
    made = [e.actions.summary for e in await runner.store.events(key()) if e.actions.summary]
    assert [summary.text for summary in made][:1] == ["They ask for orders."]
    assert [body.get("tools") for body in wire.bodies()] == [None] * len(wire.bodies())
    words = [line.text for line in wire.sent()[0]]
    assert '<said by="clerk" calls="find_order">{"number":"O-0"} → O-0 was sent</said>' in words


async def test_an_agent_that_has_no_tools_any_more_reads_of_its_calls(process: Process, wire: Wire) -> None:
    wire.say(calls(("find_order", {"number": "O-1"})), "It was sent.", "You are welcome.")
    await ask(process(LlmAgent("clerk", model=wire.model(), tools=[find_order])), "Where is O-1?")
    last = await ask(process(LlmAgent("clerk", model=wire.model())), "thanks")
    assert last.text == "You are welcome."
    assert '<said by="clerk" calls="find_order">{"number":"O-1"} → O-1 was sent</said>' in str(wire.sent()[-1])


class OnlyO1:
    """Changes which order is looked for."""

    name, reach = "only-o1", 0

    async def check(self, place: str, content: Content, agent: str | None) -> Any:
        if place != "tool_call":
            return ALLOW
        call = content.tool_calls[0].replace(arguments={"number": "O-1"})
        return GuardrailVerdict("rewrite", Content(parts=(call,)), "Another order.")


async def test_a_call_that_a_guardrail_rewrote_goes_back_with_the_thoughts_before_it(process: Process, wire: Wire) -> None:
    """C13: else the service refuses to go on in that turn."""
    wire.say(calls(("find_order", {"number": "O-9"}), thinking="Which one?"), "It was sent.")
    settings = THINKS if wire.kind == "anthropic" else {}
    clerk = LlmAgent("clerk", model=wire.model(), tools=[find_order], settings=settings)
    result = await ask(process(clerk, guardrails=[OnlyO1()]), "Where is it?")
    assert (result.text, reason(result)) == ("It was sent.", "completed")
    assert results(wire.sent()[1]) == ["find_order: O-1 was sent"]
    if wire.kind == "anthropic":
        assert Line("assistant", "(thinks) Which one?") in wire.sent()[1]
