"""LLM agents that hand the floor on, by transfer and in teams (A35 to A40, B4 to B7)."""

from collections.abc import Callable
from typing import Any

import pytest
from llm_play import heard, last_results, results_of, told
from runner_play import ask, reason, texts

from turnwise import Runner, Team
from turnwise.agents.llm import LlmAgent
from turnwise.ports.model import ModelRequest
from turnwise.selection.conversational import Conversational
from turnwise.testing.models import FunctionModel, ScriptedModel, calls
from turnwise.tools.built_in import ask_user

Process = Callable[..., Runner]


def to(agent: str, **arguments: Any) -> Any:
    return calls("transfer_to_agent", {"agent": agent, **arguments})


def desk(front: Any, billing: Any, **options: Any) -> LlmAgent:
    below = LlmAgent("billing", model=billing, description="Knows bills.")
    return LlmAgent("front", model=front, children=[below], **options)


async def test_the_target_answers_in_the_same_invocation(process: Process) -> None:
    """A36: with the history, attributed; the giver's run is over, and it is not asked again."""
    front, billing = ScriptedModel(["One moment.", to("billing")]), ScriptedModel("Your bill is 3 €.")
    result = await ask(process(desk(front, billing), policy="adk"), "my bill?")
    assert (result.text, reason(result)) == ("One moment.\nYour bill is 3 €.", "completed")
    assert [e.actions.transfer_to for e in result.events if e.actions.transfer_to] == ["billing"]
    (request,) = billing.requests
    assert [role for role, _ in heard(request)] == ["user"]
    assert "my bill?" in request.messages[0].text
    assert '<said by="front">One moment.</said>' in request.messages[0].text
    assert '<said by="NAME">' in request.instructions, "it is told how to read that"
    assert "transfer_to_agent" not in request.messages[0].text, "a private tool"


async def test_the_floor_moves_with_the_results_of_the_step(process: Process) -> None:
    """A40: in the one commit that hands over."""
    ran: list[str] = []

    async def look() -> str:
        ran.append("look")
        return "seen"

    front = ScriptedModel([to("billing"), calls("look")])
    runner = process(desk(front, ScriptedModel("Bill."), tools=[look]), policy="adk")
    result = await ask(runner, "bill?")
    moved = next(e for e in result.events if e.actions.transfer_to)
    assert moved.content is not None
    assert [(part.tool, part.failed) for part in moved.content.tool_results] == [
        ("transfer_to_agent", False),
        ("look", False),
    ]
    assert (ran, result.text) == (["look"], "Bill.")


async def test_of_two_transfers_the_first_counts(process: Process) -> None:
    """A40: the second is told so."""
    below = [LlmAgent(name, model=ScriptedModel(f"I am {name}.")) for name in ("one", "two")]
    front = LlmAgent("front", model=ScriptedModel([to("two"), to("one")]), children=below)
    result = await ask(process(front, policy="adk"), "go")
    assert result.text == "I am two."
    assert [part.failed for part in results_of(result.events)] == [False, True]
    assert "two" in told(result)[1]


async def test_a_target_that_does_not_exist_is_told_with_those_that_do(process: Process) -> None:
    """A37: the model corrects itself."""
    front, billing = ScriptedModel(to("accounting"), to("billing")), ScriptedModel("Bill.")
    result = await ask(process(desk(front, billing), policy="adk"), "bill?")
    assert result.text == "Bill."
    (wrong,) = last_results(front.requests[1])
    assert wrong.failed
    assert "billing" in str(wrong.result)


async def test_who_may_hand_over_to_nobody_has_no_tool_and_no_word_of_it(process: Process) -> None:
    """A35."""
    model = ScriptedModel("Hello.")
    await ask(process(LlmAgent("alone", model=model)), "hi")
    assert (model.requests[0].tools, model.requests[0].instructions) == ((), "")


async def test_whom_it_may_hand_over_to_stands_in_its_instructions(process: Process) -> None:
    """A35."""
    front = ScriptedModel("Hello.")
    await ask(process(desk(front, ScriptedModel()), policy="adk"), "hi")
    assert "- billing: Knows bills." in front.requests[0].instructions
    assert [spec.name for spec in front.requests[0].tools] == ["transfer_to_agent"]


async def test_a_circle_ends_with_an_answer_of_the_root(process: Process) -> None:
    """A38: told why, without the tool."""
    asked: list[ModelRequest] = []

    def front(request: ModelRequest) -> Any:
        asked.append(request)
        return to("billing") if request.tools else "I will help you myself."

    def billing(request: ModelRequest) -> Any:
        return to("front")

    runner = process(desk(FunctionModel(front), FunctionModel(billing)), policy="adk")
    result = await ask(runner, "bill?")
    assert (reason(result), result.text) == ("loop", "I will help you myself.")
    assert "Hand-overs were stopped" in asked[-1].messages[-1].text


async def test_what_the_target_is_told_takes_the_place_of_the_message(process: Process) -> None:
    front, billing = ScriptedModel(to("billing", message="Explain bill 7.")), ScriptedModel("It is for tea.")
    await ask(process(desk(front, billing), policy="adk"), "hm")
    assert "Explain bill 7." in billing.requests[0].messages[0].text


async def test_the_target_waits_and_goes_on_where_it_was(process: Process) -> None:
    """A42: the giver's model is not asked again after the wait."""
    front, billing = ScriptedModel(to("billing")), ScriptedModel(calls("ask_user", {"question": "Which bill?"}), "Paid.")
    below = LlmAgent("billing", model=billing, tools=[ask_user])
    root = LlmAgent("front", model=front, children=[below])
    assert (await ask(process(root, policy="adk"), "bill?")).text == "Which bill?"
    done = await ask(process(root, policy="adk"), "the blue one")
    assert (done.text, reason(done)) == ("Paid.", "completed")
    assert (len(front.requests), len(billing.requests)) == (1, 2)
    assert await texts(process(root)) == ["bill?", "Which bill?", "the blue one", "Paid."]


async def test_members_of_a_team_name_the_next(process: Process) -> None:
    """B4 to B7: they are told their colleagues and how; the tag is taken out, and the next one hears what was said."""
    writer = ScriptedModel("A draft.<next>@Critic</next>", "A better draft.")
    critic = ScriptedModel("Too long. <next>@writer</next>")
    team = Team(
        "desk",
        [
            LlmAgent("writer", model=writer, names_next=True, description="Writes."),
            LlmAgent("critic", model=critic, names_next=True, description="Finds faults."),
        ],
        selector=Conversational(lead="writer"),
    )
    result = await ask(process(team), "a poem")
    assert (result.text, reason(result)) == ("A draft.\nToo long. \nA better draft.", "completed")
    instructions = writer.requests[0].instructions
    assert "- critic: Finds faults." in instructions
    assert "<next>@Name</next>" in instructions
    assert "- writer" not in instructions
    assert '<said by="writer">A draft.</said>' in critic.requests[0].messages[-1].text
    assert [text for role, text in heard(writer.requests[1]) if role == "agent"] == ["A draft."]


@pytest.mark.parametrize("place", ["first", "second"])
async def test_agents_of_a_policy_that_obeys_tags_name_the_next(process: Process, place: str) -> None:
    """B4 to B7, A35: they are told whom they may hand over to, themselves aside, the root too."""
    billing = ScriptedModel("You owe us nothing. <next>@front</next>")
    front = ScriptedModel("One moment. <next>@Billing</next>", "Anything else?")
    agents = [
        LlmAgent("billing", model=billing, names_next=True, description="Bills."),
        LlmAgent("orders", model=ScriptedModel(), disallow_transfer_to_parent=True),
    ]
    children = agents if place == "first" else agents[::-1]
    root = LlmAgent("front", model=front, names_next=True, children=children, description="Greets.")
    result = await ask(process(root, policy="elemental-conversational"), "my bill")
    assert (result.text, reason(result)) == ("One moment. \nYou owe us nothing. \nAnything else?", "completed")
    assert "- billing: Bills." in front.requests[0].instructions
    told = billing.requests[0].instructions
    assert "- front: Greets." in told
    assert "- orders" in told
    assert "- billing" not in told


@pytest.mark.parametrize("names_next", [True, False])
async def test_who_stands_alone_is_told_of_no_colleagues(process: Process, names_next: bool) -> None:
    model = ScriptedModel("Hello.")
    await ask(process(LlmAgent("alone", model=model, names_next=names_next)), "hi")
    assert model.requests[0].instructions == ""
