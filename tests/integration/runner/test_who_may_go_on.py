"""The default policy gives nobody the conversation who may not go on with it (A3, A10, A12, C9)."""

from collections.abc import Callable
from typing import Any

import pytest
from runner_play import ask, direct

from turnwise import AgentContext, Flow, Loop, Parallel, Runner, Sequential, Task, Team, agent
from turnwise.selection.conversational import Conversational
from turnwise.selection.named import named_policy

MakeRunner = Callable[..., Runner]
FOLLOW_UPS = [
    "yes",
    "12345",
    "ok",
    "joe@example.com",
    "and tomorrow?",
    "the blue one",
    "thanks",
    "no",
    "my name is Joe",
    "at 5 pm",
]
OPENING = "Where is my parcel?"


def desk(**card: Any) -> Any:
    """A root with two children, of which the card is that of `orders`."""

    @agent(examples=["Where is my parcel?", "Track my package", "When does my order arrive?"], **card)
    def orders(message: str) -> str:
        return "Which order is it?"

    @agent(examples=["I want my money back", "You charged me twice", "I need an invoice"])
    def billing(message: str) -> str:
        return "Which invoice is it?"

    @agent(children=[orders, billing], examples=["Hello", "What can you do?"])
    def root(message: str) -> str:
        return "How can I help?"

    return root


@pytest.mark.parametrize("card", [{"disallow_transfer_to_parent": True}, {"resume": "never"}], ids=["disallowed", "never"])
async def test_who_may_not_be_resumed_keeps_no_follow_up(make_runner: MakeRunner, card: dict[str, Any]) -> None:
    """A12: it is chosen only for what the message says by itself, as at an opening; the record names it and the rule."""
    runner = make_runner(desk(**card))
    for number, follow_up in enumerate(FOLLOW_UPS):
        session = f"s{number}"
        first = await ask(runner, OPENING, session=session)
        assert first.selection is not None
        assert first.selection.agent == "orders"
        opening = await runner.select(follow_up)
        then = (await ask(runner, follow_up, session=session)).selection
        assert then is not None
        assert (then.agent, then.confidence) == (opening.agent, opening.confidence), follow_up
        passed_over = {each.agent for verdict in then.verdicts for each in verdict.passed_over}
        assert "orders" in passed_over, follow_up
        again = (await ask(runner, "Track my package", session=session)).selection
        assert again is not None
        assert again.agent == "orders"
        assert "stays" not in again.reason


async def test_who_may_go_on_keeps_its_follow_ups(make_runner: MakeRunner) -> None:
    """C9: the same agents without a forbidding card."""
    runner = make_runner(desk())
    for number, follow_up in enumerate(["yes", "12345", "joe@example.com", "the blue one"]):
        await ask(runner, OPENING, session=f"s{number}")
        then = (await ask(runner, follow_up, session=f"s{number}")).selection
        assert then is not None
        assert then.agent == "orders", follow_up


@pytest.mark.parametrize("follow_up", ["12345", "yes", "the blue one", "joe@example.com"])
async def test_who_failed_after_its_question_does_not_get_the_next_message(make_runner: MakeRunner, follow_up: str) -> None:
    """A10: and no reason says that the message answers its question."""

    @agent(examples=["Where is my parcel?", "Track my package"])
    async def orders(context: AgentContext) -> str:
        await context.ask("Which order is it?")
        raise ValueError("the warehouse is away")

    @agent(children=[orders], examples=["Hello"])
    def root(message: str) -> str:
        return "How can I help?"

    runner = make_runner(root)
    await ask(runner, OPENING)
    failed = await ask(runner, "10412")
    assert failed.error is not None
    opening = await runner.select(follow_up)
    then = (await ask(runner, follow_up)).selection
    assert then is not None
    assert (then.agent, then.confidence) == (opening.agent, opening.confidence)
    assert "question of orders" not in then.reason
    assert "orders" in {each.agent for verdict in then.verdicts for each in verdict.passed_over}
    again = (await ask(runner, "Track my package")).selection
    assert again is not None
    assert again.agent == "orders"


@pytest.mark.parametrize("kind", ["sequential", "team"])
@pytest.mark.parametrize("said", ["thanks", "thank you so much", "good night", "great, thank you"])
async def test_small_talk_after_a_finished_composite_does_not_run_it_again(
    make_runner: MakeRunner, kind: str, said: str
) -> None:
    """A3: a composite has the conversation only while it waits; small talk goes to the root."""
    ran: list[str] = []

    @agent
    def writer(message: str) -> str:
        ran.append(message)
        return "Here is the article."

    card: dict[str, Any] = {"examples": ["Write an article", "I need a text about bees"]}
    works: Any = (
        Sequential("articles", [writer], **card)
        if kind == "sequential"
        else Team("articles", [writer], selector=Conversational(), **card)
    )

    @agent(children=[works], examples=["Hello", "What can you do?"])
    def root(message: str) -> str:
        return "You are welcome."

    runner = make_runner(root)
    await ask(runner, "Write an article", context=direct("articles"))
    then = await ask(runner, said)
    assert then.selection is not None
    assert (then.selection.agent, ran) == ("root", ["Write an article"])


async def test_a_composite_that_waits_keeps_the_conversation(make_runner: MakeRunner) -> None:
    """A41, A42."""

    @agent
    async def writer(context: AgentContext) -> str:
        return f"An article on {(await context.ask('On what?')).text}."

    @agent(children=[Sequential("articles", [writer], examples=["Write an article"])], examples=["Hello"])
    def root(message: str) -> str:
        return "You are welcome."

    runner = make_runner(root)
    await ask(runner, "Write an article", context=direct("articles"))
    assert (await ask(runner, "bees")).text == "An article on bees."


POLITE = ["thanks", "ok", "my name is Joe", "great, thank you so much", "perfect", "hello", "bye"]
WRITES: dict[str, Any] = {
    "description": "Writes articles.",
    "examples": [
        "Write an article",
        "I need a text about bees",
        "Compose a story for me",
        "Draft a blog post",
        "Please write something on cats",
    ],
}


@pytest.mark.parametrize("kind", ["flow", "sequential", "loop", "parallel", "team"])
@pytest.mark.parametrize("general", [None, "chat"])
async def test_nothing_polite_runs_a_finished_composite_or_flow_again(
    make_runner: MakeRunner, kind: str, general: str | None
) -> None:
    """A3, C6: seven messages that ask for nothing; the general agent has them, the root when none is named. A new request runs
    it again.
    """
    ran: list[str] = []

    @agent
    def writer(message: str) -> str:
        ran.append(message)
        return "Here is the article."

    def works() -> Any:
        if kind == "flow":
            return Flow("articles", [Task("write", "Write it.", agents=[writer])], **WRITES)
        if kind == "team":
            return Team("articles", [writer], selector=Conversational(), **WRITES)
        if kind == "loop":
            return Loop("articles", [writer], max_iterations=1, **WRITES)
        return {"sequential": Sequential, "parallel": Parallel}[kind]("articles", [writer], **WRITES)

    @agent(examples=["Hello", "What can you do?"])
    def chat() -> str:
        return "You are welcome."

    @agent(children=[works(), chat] if general else [works()], examples=[] if general else ["Hello", "What can you do?"])
    def root() -> str:
        return "You are welcome."

    policy = named_policy("default", default=general)
    runner = make_runner(root, policy=policy)
    for number, polite in enumerate(POLITE):
        session = f"s{number}"
        await ask(runner, "Write an article", session=session, context=direct("articles"))
        before = len(ran)
        then = await ask(runner, polite, session=session)
        assert then.selection is not None
        assert (then.selection.agent, len(ran)) == (general or "root", before), polite
    again = await ask(runner, "Please write something on dogs", session="s0")
    assert again.selection is not None
    assert (again.selection.agent, len(ran)) == ("articles", before + 1)
