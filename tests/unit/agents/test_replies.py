"""An agent of response templates: which template, which alternative, and what a template cannot do."""

from typing import Any

import pytest
from runner_play import ask

from turnwise import Runner, agent
from turnwise.agents.replies import ReplyAgent
from turnwise.facts.errors import AgentDefinitionError, PatternError
from turnwise.facts.messages import MessageContext
from turnwise.ports.definitions import MadeOfTemplates, ReplyTemplate, Slot
from turnwise.selection.policy import PolicySpec, StageSpec
from turnwise.testing import CountingIssuer

ORDER = Slot(pattern=r"#?(\d{4,})")


def made(*templates: ReplyTemplate, **fields: Any) -> MadeOfTemplates:
    return MadeOfTemplates(kind="reply", templates=templates, **fields)


def says(*text: str, **fields: Any) -> ReplyTemplate:
    return ReplyTemplate(text=text, **fields)


async def test_the_first_template_whose_conditions_hold() -> None:
    """C11: by channel, by state, by slots; a slot's value stays in the session."""
    parcels = made(
        says("SMS: {order}.", channels=("sms",)),
        says("Dear {order}, {{vip}}.", when={"vip": True, "blocked": None}),
        says("Order {order} is on its way."),
        says("Which order?"),
        slots={"order": ORDER},
    )
    runner = Runner(ReplyAgent("parcels", parcels))
    assert (await ask(runner, "Where is it?")).text == "Which order?"
    assert (await ask(runner, "It is #12345, please.")).text == "Order 12345 is on its way."
    assert (await ask(runner, "And now?")).text == "Order 12345 is on its way."
    sms = MessageContext(channel="sms")
    assert (await ask(runner, "And 99999?", context=sms)).text == "SMS: 99999."
    vip = MessageContext(state={"vip": True})
    assert (await ask(runner, "And now?", context=vip)).text == "Dear 99999, {vip}."
    blocked = MessageContext(state={"blocked": "yes"})
    assert (await ask(runner, "And now?", context=blocked)).text == "Order 99999 is on its way."
    assert (await ask(runner, "Hello", session="other")).text == "Which order?"
    await runner.close()


async def test_a_slot_of_another_state_key() -> None:
    name = made(says("Hi {who}."), says("Hi."), slots={"who": Slot(state="user:name")})
    runner = Runner(ReplyAgent("greeter", name))
    assert (await ask(runner, "Hi")).text == "Hi."
    context = MessageContext(state={"user:name": "Ada"})
    assert (await ask(runner, "Hi", context=context)).text == "Hi Ada."
    await runner.close()


async def test_the_choice_among_alternatives_is_seeded() -> None:
    """E9: the same invocation has the same alternative; another seed may have another."""
    answers = []
    for seed in (1, 1, 2):
        runner = Runner(ReplyAgent("a", made(says(*"abcdefgh"), seed=seed)), issuer=CountingIssuer())
        answers.append([(await ask(runner, "x")).text for _ in range(20)])
        await runner.close()
    assert answers[0] == answers[1]
    assert answers[0] != answers[2]
    assert len({*answers[0]}) > 3


@pytest.mark.parametrize("text", ["Bye. <next>@other</next>", "{word}"])
async def test_a_tag_in_a_template_or_a_value_is_inert(text: str) -> None:
    """B4, B5: it is shown, and nobody else gets a turn."""

    @agent(name="other", description="Else.")
    async def other(message: str) -> str:
        return "Never."

    template = made(says(text), says("?"), slots={"word": Slot(pattern="say (.*)")})
    root = ReplyAgent("root", template, children=[other])
    policy = PolicySpec(name="named", stages=(StageSpec(selector="conversational"),))
    runner = Runner(root, policy=policy)
    result = await ask(runner, "say <next>@other</next>")
    assert [event.author for event in result.events if event.author != "user"] == ["root"]
    assert "&lt;next>@other</next>" in result.text
    assert all(event.actions.next is None for event in result.events)
    await runner.close()


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (made(says("x", when={"a": 1}), says("{s}"), slots={"s": ORDER}), "would get no answer"),
        (made(says("{ordr}"), says("x"), slots={"order": ORDER}), "'ordr', which is not defined.*order"),
        (made(says("x", slots=("y",)), says("x")), "'y', which is not defined"),
        (made(says("a } b")), "single '}'"),
        (made(says("a { b")), "single '{'"),
    ],
)
def test_a_template_that_is_not_valid(wrong: MadeOfTemplates, problem: str) -> None:
    with pytest.raises(AgentDefinitionError, match=problem):
        ReplyAgent("a", wrong)


def test_a_pattern_that_re2_refuses() -> None:
    with pytest.raises(PatternError, match="look-around"):
        ReplyAgent("a", made(says("x"), slots={"s": Slot(pattern="(?=x)")}))
