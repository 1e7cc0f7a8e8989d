"""A message that asks several agents for something: who answers what, and what comes of it when one fails or waits."""

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from flow_play import died_at
from pydantic import BaseModel
from runner_play import ask, key, reason, soon

from turnwise import AgentContext, LlmAgent, Runner, SqlSessionStore, agent
from turnwise.agents.composite import Sequential
from turnwise.facts.errors import AgentFailed
from turnwise.facts.selections import Verdict
from turnwise.flows.flow import Flow
from turnwise.flows.logged import data_of, task_end_of
from turnwise.flows.plan import graph_of
from turnwise.flows.planned import Several
from turnwise.flows.tasks import Task
from turnwise.ports.model import ModelRequest
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.named import named_policy
from turnwise.selection.policy import PolicySpec, StageSpec
from turnwise.selection.verdicts import abstained
from turnwise.testing.models import ScriptedModel, calls

BOTH = "where is my order, and also cancel my subscription please"
ORDERS: dict[str, Any] = {
    "patterns": [r"where is my order", r"track"],
    "description": "Order status and delivery tracking",
    "examples": ["where is my order", "when will my parcel arrive", "track my package"],
}
SUBSCRIPTIONS: dict[str, Any] = {
    "patterns": [r"cancel .*subscription"],
    "description": "Subscriptions: cancel, upgrade, renew",
    "examples": ["cancel my subscription", "I want to upgrade my plan", "renew my membership"],
}


class Says:
    """A selector: a message with ` and ` is for those whom it names, the first of them chosen."""

    name = "says"

    def __init__(self, tree: Any) -> None:
        pass

    async def select(self, request: SelectionRequest) -> Verdict:
        first, *others = request.text.partition(":")[0].split(" and ")
        if first not in request.tree:
            return abstained(self.name, "Nobody is named.")
        return Verdict(
            selector=self.name, outcome="chosen", agent=first, method="says", reason="It is said.", also=tuple(others)
        )


SAID = PolicySpec(stages=(StageSpec(selector="says"), StageSpec(selector="resume")), several="several")


def desk_of(*children: Any) -> Any:
    @agent(name="desk", description="Everything else", children=children)
    def desk() -> str:
        return "Hello."

    return desk


def runner_of(*agents: Any, policy: PolicySpec = SAID, store: Any = None) -> Runner:
    return Runner(desk_of(*agents), store=store or SqlSessionStore("sqlite://"), policy=policy, custom_selectors={"says": Says})


def says(name: str, words: str = "", ran: Counter[str] | None = None, **card: Any) -> Any:
    @agent(name=name, **card)
    def answers(message: str) -> str:
        if ran is not None:
            ran[name] += 1
        return words or f"{name} heard {message!r}."

    return answers


async def test_both_answer_through_the_default_policy() -> None:
    """The plain case, on real text: the contextual selector reports the second request."""
    shop = [says("orders", "It is on its way.", **ORDERS), says("subscriptions", "It is cancelled.", **SUBSCRIPTIONS)]
    policy = named_policy("default").replace(several="several")
    runner = runner_of(*shop, Several(), policy=policy)
    result = await ask(runner, BOTH)
    selection = result.selection
    assert selection is not None
    assert (selection.agent, selection.method) == ("several", "several")
    assert "The message asks orders and subscriptions for something." in selection.reason
    assert (selection.verdicts[-1].agent, selection.verdicts[-1].also) == ("orders", ("subscriptions",))
    assert result.events[-1].text == "It is on its way.\n\nIt is cancelled."
    alone = await ask(runner, "where is my order", session="other")
    assert (alone.selection and alone.selection.agent, alone.text) == ("orders", "It is on its way.")


async def test_each_is_given_the_message_as_it_is() -> None:
    result = await ask(runner_of(says("a"), says("b"), Several()), "a and b: now")
    assert result.events[-1].text == "a heard 'a and b: now'.\n\nb heard 'a and b: now'."
    graphs = [graph for event in result.events if (graph := graph_of("several", event))]
    assert [graph.order for graph in graphs] == [("a", "b")]


async def test_they_work_side_by_side() -> None:
    """D13: each waits for the other."""
    here = {name: asyncio.Event() for name in "ab"}

    def meets(name: str, other: str) -> Any:
        @agent(name=name)
        async def waits() -> str:
            here[name].set()
            await here[other].wait()
            return name

        return waits

    assert (await soon(ask(runner_of(meets("a", "b"), meets("b", "a"), Several()), "a and b"))).events[-1].text == "a\n\nb"


async def test_one_that_fails_does_not_take_the_others_answer_away() -> None:
    @agent(name="b")
    def breaks() -> str:
        raise ValueError("a secret")

    result = await ask(runner_of(says("a", "Done."), breaks, Several()), "a and b")
    assert (reason(result), result.events[-1].text) == ("completed", "Done.\n\nb could not answer its part.")
    told = data_of(result.events[-1], "flow")
    assert told is not None
    assert told["tasks"] == {
        "a": {"status": "successful"},
        "b": {"status": "failed", "reason": "Agent 'b' raised ValueError: a secret"},
    }


async def test_what_is_said_of_a_missing_part_can_be_changed() -> None:
    @agent(name="b")
    def breaks() -> str:
        raise AgentFailed("no")

    several = Several("beide", unanswered="{agent} antwortet nicht. {}")
    policy = SAID.replace(several="beide")
    result = await ask(runner_of(says("a", "Ja."), breaks, several, policy=policy), "a and b")
    assert result.events[-1].text == "Ja.\n\nb antwortet nicht. {}"


async def test_when_all_fail_it_has_failed() -> None:
    def breaks(name: str) -> Any:
        @agent(name=name)
        def fails() -> str:
            raise ValueError(name)

        return fails

    result = await ask(runner_of(breaks("a"), breaks("b"), Several()), "a and b")
    assert (reason(result), result.error and result.error.code) == ("failed", "agent.flow_failed")
    detail = result.end.detail if result.end else ""
    assert "'a' failed: Agent 'a' raised ValueError: a; 'b' failed: Agent 'b' raised ValueError: b" in detail


async def test_one_that_waits_gets_the_reply_and_the_other_is_not_asked_again() -> None:
    """A42, D12."""
    ran: Counter[str] = Counter()

    @agent(name="a")
    async def asks(context: AgentContext) -> str:
        return f"So it is {(await context.ask('Which colour?')).text}."

    runner = runner_of(asks, says("b", "Done.", ran), Several())
    first = await ask(runner, "a and b")
    assert (reason(first), first.text) == ("waiting", "Which colour?")
    second = await ask(runner, "red")
    assert (reason(second), ran) == ("completed", {"b": 1})
    assert second.events[-1].text == "So it is red.\n\nDone."


async def test_a_reply_that_asks_for_more_still_reaches_who_waits() -> None:
    @agent(name="a")
    async def asks(context: AgentContext) -> str:
        return f"So it is {(await context.ask('Which colour?')).text}."

    runner = runner_of(asks, says("b"), Several())
    assert reason(await ask(runner, "a: paint it")) == "waiting"
    result = await ask(runner, "a and b: red")
    assert (result.selection and result.selection.agent, result.text) == ("a", "So it is a and b: red.")


async def test_after_it_one_of_those_who_answered_goes_on() -> None:
    """A12: it runs others, so it is passed over."""
    runner = runner_of(says("a", "A."), says("b", "B."), Several())
    await ask(runner, "a and b")
    result = await ask(runner, "and what else?")
    assert result.selection is not None
    assert result.selection.agent in ("a", "b")
    assert result.selection.method == "resume"
    passed_over = [(each.agent, each.rule) for each in result.selection.verdicts[-1].passed_over]
    assert passed_over == [("several", "not_resumable")]


class Report(BaseModel):
    """An answer of its own type."""

    status: str


async def test_models_answer_as_they_always_do_each_told_of_the_other() -> None:
    """D8: the request is the user's, and stands there once; no tools of a flow, and an answer of its own type stays."""
    first = ScriptedModel("On its way.")
    second = ScriptedModel(_gives_output)
    runner = runner_of(LlmAgent("a", model=first), LlmAgent("b", model=second, output_type=Report), Several())
    result = await ask(runner, "a and b: please")
    (asked,) = first.requests
    assert [(message.role, message.text) for message in asked.messages] == [("user", "a and b: please")]
    assert asked.tools == ()
    assert "Do and answer only what is yours in it; the rest is answered at the same time by b." in asked.instructions
    assert result.events[-1].text == 'On its way.\n\n{"status": "gone"}'


def _gives_output(request: ModelRequest) -> Any:
    (tool,) = request.tools
    return calls(tool.name, {"status": "gone"})


async def test_later_the_models_know_what_the_other_said() -> None:
    """D7: the flow's answer is the user's to see, and so everybody's."""
    first, second = ScriptedModel("A1.", "A2."), ScriptedModel("B1.", "B2.")
    runner = runner_of(LlmAgent("a", model=first), LlmAgent("b", model=second), Several())
    await ask(runner, "a and b")
    await ask(runner, "a and b: more")
    assert "B1." in "".join(message.text for message in first.requests[1].messages)
    assert "B2." not in "".join(message.text for message in first.requests[1].messages)


async def test_nobody_hands_over_while_several_work() -> None:
    targets: list[tuple[str, ...]] = []

    @agent(name="a")
    def looks(context: AgentContext) -> str:
        targets.append(context.transfer_targets)
        return "A."

    await ask(runner_of(looks, says("b"), Several()), "a and b")
    assert targets == [()]


async def test_flows_and_composites_are_asked_like_others() -> None:
    inner = Flow("b", [Task("one", agents=[says("one", "1")]), Task("two", agents=[says("two", "2")], depends_on=["one"])])
    runner = runner_of(Sequential("a", [says("x", "X."), says("y", "Y.")]), inner, Several())
    assert (await ask(runner, "a and b")).events[-1].text == "Y.\n\n2"


async def test_it_may_stand_in_another() -> None:
    """The verdict on the message counts wherever it stands, but not for another text."""
    both = Sequential("both", [says("first", "First."), Several()])
    policy = SAID.replace(several="both")
    assert (await ask(runner_of(says("a", "A."), says("b", "B."), both, policy=policy), "a and b")).text.endswith("A.\n\nB.")

    flow = Flow("flow", [Task("answer", agents=[Several()])])
    policy = SAID.replace(several="flow")
    result = await ask(runner_of(says("a", "A."), says("b", "B."), flow, policy=policy), "a and b")
    assert result.events[-1].text == "A.\n\nB."


async def test_it_does_not_run_what_runs_it() -> None:
    both = Sequential("both", [Several()])
    policy = SAID.replace(several=None)
    result = await ask(runner_of(both, says("b", "B."), policy=policy), "both and b")
    assert [event.text for event in result.events if event.author == "several" and event.text] == ["B."]


async def test_without_a_verdict_it_says_what_is_missing() -> None:
    policy = PolicySpec(stages=(), default="several")
    result = await ask(runner_of(says("a"), Several(), policy=policy), "a and b")
    assert (reason(result), result.error and result.error.code) == ("failed", "agent.flow_failed")
    assert "No verdict names the agents for 'several'." in (result.end.detail if result.end else "")


async def test_killed_at_every_commit_both_answer_once(tmp_path: Path) -> None:
    """D12: wherever it died, who had answered is not asked again."""
    commit = 0
    while True:
        commit += 1
        url, ran = f"sqlite:///{tmp_path}/{commit}.db", Counter[str]()
        died = await died_at(commit, url, partial(_two, ran), "a and b")
        runner = _two(ran, SqlSessionStore(url))
        before = [closing.task for e in await runner.store.events(key()) if (closing := task_end_of(e))]
        ran_before = Counter(ran)
        invocation = await runner.start("a and b", user="ada", session="s", message_id="m")
        result = await soon(invocation.result())
        events = await runner.store.events(key())
        await runner.close()
        assert result.events[-1].text == "A.\n\nB."
        closings = [closing.task for e in events if (closing := task_end_of(e))]
        assert sorted(closings) == ["a", "b"]
        assert all(ran[name] == ran_before[name] for name in before)
        if not died:
            break
    assert commit > 6


def _two(ran: Counter[str], store: Any) -> Runner:
    return runner_of(says("a", "A.", ran), says("b", "B.", ran), Several(), store=store)
