"""Choosing who answers by a model over real HTTP: on near ties alone, among the eligible, with its reason and its cost."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from llm_http import KEY, Wire, calls
from llm_servers import Fault
from llm_servers.answers import Sayable
from runner_play import ask, direct, key, reason

from turnwise import MessageContext, Runner
from turnwise.agents.llm import LlmAgent
from turnwise.models.by_name import ModelEndpoint
from turnwise.selection.policy import PolicySpec, StageSpec

Process = Callable[..., Runner]


def shop(wire: Wire) -> LlmAgent:
    """Two agents whose work sounds alike, and one that only staff may have."""
    below = [
        LlmAgent("orders", model=wire.model("orders"), description="Knows where parcels are.", examples=EXAMPLES["orders"]),
        LlmAgent("billing", model=wire.model("billing"), description="Knows invoices.", examples=EXAMPLES["billing"]),
        LlmAgent("stock", model=wire.model("stock"), roles=["staff"], examples=EXAMPLES["stock"]),
    ]
    return LlmAgent("front", model=wire.model("front"), children=below, routable=False)


EXAMPLES = {
    "orders": ["Where is my parcel?", "My order has not come.", "When do you deliver?"],
    "billing": ["Where is my invoice?", "My bill is wrong.", "When do you charge me?"],
    "stock": ["How many are left?", "Where is it in the store?"],
}


def judged(wire: Wire, *, margin: float = 1.0) -> PolicySpec:
    """By meaning if the best leads by the margin, else by the model `judge`."""
    spec: Any = wire.model("judge")
    if isinstance(spec, ModelEndpoint):
        spec = {"model": spec.model, "url": spec.url, "key": KEY}
    options = {"model": spec, "margin": margin, "stage": "semantic"}
    semantic = StageSpec(selector="semantic", options={"threshold": 0.0, "margin": margin})
    return PolicySpec(stages=(StageSpec(selector="direct"), semantic, StageSpec(selector="model", options=options)))


def choice(agent: str, reason: str = "It is about money.") -> Sayable:
    return calls(("choose_agent", {"agent": agent, "reason": reason}), input_tokens=90, output_tokens=9)


async def test_a_model_decides_a_near_tie(process: Process, wire: Wire) -> None:
    """Its reason and what it took are in the record of the decision; it may choose among the eligible alone."""
    wire.cast(judge=[choice("billing")], billing=["Your invoice is on its way."])
    runner = process(shop(wire), policy=judged(wire))
    done = await ask(runner, "Where is it, and what do I pay?")
    assert (done.text, reason(done)) == ("Your invoice is on its way.", "completed")
    selection = done.events[0].actions.selection
    assert selection is not None
    assert (selection.agent, selection.method) == ("billing", "model_choice")
    assert "It is about money." in selection.reason
    [asked] = wire.bodies("judge")
    [tool] = asked["tools"]
    schema = tool["function"]["parameters"] if "function" in tool else tool["input_schema"]
    assert sorted(schema["properties"]["agent"]["enum"]) == ["billing", "orders"]
    assert "stock" not in json.dumps(asked)
    [took] = [verdict.usage for verdict in selection.verdicts if verdict.usage]
    assert (took.input_tokens, took.output_tokens, took.calls) == (90, 9, 1)


@pytest.mark.parametrize(
    "said",
    [Fault(400), choice("stock"), choice("nobody"), calls(("choose_agent", '{"agent": "bil')), "Billing, I think."],
    ids=["refused", "not-eligible", "unknown", "no-json", "no-call"],
)
async def test_a_model_that_is_of_no_help_leaves_the_best_before_it(process: Process, wire: Wire, said: Sayable) -> None:
    wire.cast(judge=[said], orders=["It is in Rome."])
    done = await ask(process(shop(wire), policy=judged(wire)), "Where is my parcel?")
    selection = done.events[0].actions.selection
    assert selection is not None
    assert (selection.agent, selection.method, done.text) == ("orders", "model_fallback", "It is in Rome.")


async def test_what_is_clear_costs_no_call(process: Process, wire: Wire) -> None:
    wire.cast(orders=["It is in Rome."], billing=["Here it is."])
    runner = process(shop(wire), policy=judged(wire, margin=0.01))
    assert (await ask(runner, "Where is my parcel?")).text == "It is in Rome."
    assert (await ask(runner, "my parcel", context=direct("billing"))).text == "Here it is."
    assert wire.bodies("judge") == []


async def test_whoever_may_have_more_is_offered_more(process: Process, wire: Wire) -> None:
    wire.cast(judge=[choice("stock", "They want to know how many.")], stock=["Three."])
    runner = process(shop(wire), policy=judged(wire))
    done = await ask(runner, "Where is it in the store?", context=MessageContext(roles=("staff",)))
    assert done.text == "Three."
    assert (await runner.sessions.get(key())).head.active_agent == "stock"
