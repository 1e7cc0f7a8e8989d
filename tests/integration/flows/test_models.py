"""What models are shown in a flow, and what they can do to their tasks (D6 to D8)."""

from collections.abc import Callable
from typing import Any

import pytest
from flow_play import closings, done, ended, failed, statuses, turns, words
from llm_play import last_results, results_of
from pydantic import BaseModel
from runner_play import ask, direct, reason

from turnwise import LlmAgent, Runner, agent
from turnwise.facts.content import Content, DataPart
from turnwise.flows.flow import Flow
from turnwise.flows.strategies import RoundRobin
from turnwise.flows.tasks import Task
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place
from turnwise.testing.models import ScriptedModel, calls

Process = Callable[..., Runner]


def llm(name: str, *replies: Any) -> tuple[LlmAgent, ScriptedModel]:
    model = ScriptedModel(*replies)
    return LlmAgent(name, model=model), model


class NoStock:
    """Lets no flow say, in that field, how a task ended, if it holds the word `acme`."""

    name, reach = "no stock", 0

    def __init__(self, field: str) -> None:
        self._field = field

    async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        data: Any = next((part.data for part in content.parts if isinstance(part, DataPart)), {})
        blocked = place == "answer" and "acme" in str(data.get(self._field))
        return GuardrailVerdict("block", reason="No stock.") if blocked else ALLOW


async def run(process: Process, tasks: list[Task], text: str = "go", **options: Any) -> Any:
    flow = {name: options.pop(name) for name in ("side_by_side", "strategy", "max_turns") if name in options}
    return await ask(process(Flow("flow", tasks, **flow), **options), text, context=direct("flow"))


@pytest.mark.parametrize("side_by_side", [1, 2])
async def test_independent_tasks_do_not_see_each_other(process: Process, side_by_side: int) -> None:
    """D7, D13: nor do their results; who builds on both sees both."""
    a, cats = llm("a", ["Cats purr.", done("c")])
    b, whales = llm("b", ["Whales sing.", done("w")])
    c, text = llm("c", done("t"))
    tasks = [Task("cats", agents=[a]), Task("whales", agents=[b]), Task("text", agents=[c], depends_on=["cats", "whales"])]
    await run(process, tasks, side_by_side=side_by_side)
    for request in (*cats.requests, *whales.requests):
        assert not ("Cats purr." in words(request) and "Whales sing." in words(request))
    assert "Cats purr." not in words(whales.requests[0])
    assert '"result":"c"' not in words(whales.requests[0])
    assert '<said by="a">Cats purr.</said>' in words(text.requests[0])
    assert '<said by="b">Whales sing.</said>' in words(text.requests[0])


async def test_how_a_task_was_ended_is_shown_to_nobody_else(process: Process) -> None:
    """D8: calls of the flow's tools and their results are private; the result is told with the task that builds on it."""
    a, _ = llm("a", ["I try.", done([])], done("yes"))
    b, second = llm("b", done("fine"))
    await run(process, [Task("one", agents=[a]), Task("two", agents=[b], depends_on=["one"])])
    said = words(second.requests[0])
    assert "task_succeeded" not in said
    assert "does not fit" not in said
    assert '<said by="a">I try.</said>' in said
    assert "- one: yes" in said


class Weight(BaseModel):
    grams: int


@pytest.mark.parametrize(
    ("result", "wrong", "right", "is_there"),
    [
        (str, {"a": 1}, "text", "text"),
        (Weight, {"grams": "heavy"}, {"grams": 5}, {"grams": 5}),
        (["red", "green"], 2, 1, "green"),
        ({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, {}, {"n": 2}, {"n": 2}),
    ],
)
async def test_a_result_that_does_not_fit_goes_back(
    process: Process, result: Any, wrong: Any, right: Any, is_there: Any
) -> None:
    """D6: the model is told why, the task stays open; a label is chosen by its index."""
    a, model = llm("a", done(wrong), done(right))
    answer = await run(process, [Task("one", agents=[a], result=result)])
    (told,) = last_results(model.requests[1])
    assert told.failed
    assert {name: each.result for name, each in closings(answer.events).items()} == {"one": is_there}
    assert len(turns(answer.events)) == 1


async def test_all_ready_tasks_of_an_agent_are_one_turn(process: Process) -> None:
    """D3: each has its tool; the turn is over when all are closed."""
    a, model = llm("a", [done("1", task="one"), failed("too hard", task="two")], done("3", task="three"))
    tasks = [Task("one", agents=[a]), Task("two", agents=[a]), Task("three", agents=[a])]
    result = await run(process, tasks)
    assert reason(result) == "failed"
    assert statuses(result.events) == {"one": "successful", "two": "failed", "three": "successful"}
    names = [tool.name for tool in model.requests[0].tools]
    assert names == ["task_succeeded_one", "task_succeeded_two", "task_succeeded_three", "task_failed"]


async def test_a_failed_task_gives_its_reason(process: Process) -> None:
    """D6, D2: to the log, to who is skipped, and to whoever asked."""
    a, _ = llm("a", failed("The shop is closed."))
    b, other = llm("b", done())
    c, always = llm("c", done("cleaned"))
    tasks = [
        Task("buy", agents=[a]),
        Task("cook", agents=[b], depends_on=["buy"]),
        Task("clean", agents=[c], depends_on=["cook"], run_if="always"),
    ]
    result = await run(process, tasks)
    assert statuses(result.events) == {"buy": "failed", "cook": "skipped", "clean": "successful"}
    assert ended(result.events)["tasks"]["cook"]["reason"] == "'buy' failed: The shop is closed."
    assert (reason(result), other.requests, len(always.requests)) == ("completed", [], 1)


async def test_a_lost_final_task_is_the_flows_failure(process: Process) -> None:
    a, _ = llm("a", failed("The shop is closed."))
    result = await run(process, [Task("buy", agents=[a])])
    assert (reason(result), result.error.code) == ("failed", "agent.flow_failed")
    assert "The shop is closed." in result.error.message


async def test_words_alone_leave_the_task_open_and_the_agent_at_work(process: Process) -> None:
    """D3, D6."""
    a, model = llm("a", "Let me think.", "Nearly.", done("now"))
    b, _ = llm("b", done("b"))
    result = await run(process, [Task("one", agents=[a]), Task("two", agents=[b])])
    assert [(who, how) for who, how, _ in turns(result.events)] == [
        ("a", "popcorn"),
        ("a", "active"),
        ("a", "active"),
        ("b", "popcorn"),
    ]
    assert model.left == 0


async def test_who_has_nothing_to_do_cannot_be_named(process: Process) -> None:
    """The model is told who can be."""
    a, model = llm("a", calls("end_turn", {"next": "late"}), done())
    b, _ = llm("late", done())
    await run(process, [Task("one", agents=[a]), Task("two", agents=[b], depends_on=["one"])])
    (told,) = last_results(model.requests[1])
    assert (told.failed, "Those who have: a." in str(told.result)) == (True, True)


async def test_a_turn_ends_to_anybody(process: Process) -> None:
    """Without a name, the strategy says who goes on, and the message reaches whoever that is."""
    a, _ = llm("a", [done("1", task="one"), calls("end_turn", {"message": "I am tired."})])
    b, other = llm("b", [done("2", task="two"), done("3", task="three")])
    tasks = [Task("one", agents=[a]), Task("two", agents=[b, a]), Task("three", agents=[b, a])]
    result = await run(process, tasks, strategy=RoundRobin())
    assert [who for who, _, _ in turns(result.events)] == ["a", "b"]
    assert "a tells you: I am tired." in words(other.requests[0])


async def test_words_of_two_that_end_their_turns_side_by_side_both_arrive(process: Process) -> None:
    """D5, D13: each at whom it named."""
    a, _ = llm("a", calls("end_turn", {"next": "c", "message": "From a."}))
    b, _ = llm("b", calls("end_turn", {"next": "d", "message": "From b."}))
    c, third = llm("c", done("c"))
    d, fourth = llm("d", done("d"))
    result = await run(process, [Task("one", agents=[a, c]), Task("two", agents=[b, d])], side_by_side=2)
    assert reason(result) == "completed"
    assert [(who, how) for who, how, _ in turns(result.events)][2:] == [("c", "named"), ("d", "named")]
    assert ("From a." in words(third.requests[0]), "From b." in words(third.requests[0])) == (True, False)
    assert ("From a." in words(fourth.requests[0]), "From b." in words(fourth.requests[0])) == (False, True)


async def test_a_name_counts_for_the_next_turn_alone(process: Process) -> None:
    """D3: who was named when there was nothing for it to do is not called later for that."""

    @agent
    def namer() -> str:
        return "done <next>late</next>"

    @agent
    def middle() -> str:
        return "done"

    @agent
    def early() -> str:
        return "done"

    @agent
    def late() -> str:
        return "done"

    tasks = [
        Task("one", agents=[namer]),
        Task("two", agents=[middle]),
        Task("three", agents=[early], depends_on=["two"]),
        Task("four", agents=[late], depends_on=["two"]),
    ]
    result = await run(process, tasks)
    assert [(who, how) for who, how, _ in turns(result.events)] == [
        ("namer", "popcorn"),
        ("middle", "popcorn"),
        ("early", "popcorn"),
        ("late", "popcorn"),
    ]


async def test_a_guardrail_that_blocks_a_result_leaves_the_task_open(process: Process) -> None:
    """D6: the model is told so, and gives another."""
    a, model = llm("a", done("buy acme stock"), done("buy bread"))
    result = await run(process, [Task("one", agents=[a])], guardrails=[NoStock("result")])
    (told,) = last_results(model.requests[1])
    assert (told.failed, told.result) == (True, "The result was blocked by 'no stock'. Leave out what it must not hold.")
    assert closings(result.events)["one"].result == "buy bread"
    assert "acme" not in str([part.result for part in results_of(result.events)])


async def test_a_reason_that_is_blocked_too_fails_the_task_all_the_same(process: Process) -> None:
    """The words that say why an answer does not fit may hold what was in it."""

    @agent
    def careless() -> str:
        return "acme stock"

    tasks = [Task("one", agents=[careless], result=int), Task("two", agents=[llm("b", done())[0]])]
    result = await run(process, tasks, guardrails=[NoStock("reason")])
    assert statuses(result.events) == {"one": "failed", "two": "successful"}
