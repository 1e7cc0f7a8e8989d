"""Flows whose tasks a planner makes: what it is asked, what is refused before anything runs, and that a plan is kept."""

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flow_play import died_at
from runner_play import ask, direct, key, reason, soon

from turnwise import AgentContext, Content, LlmAgent, MessageContext, Runner, SqlSessionStore, agent
from turnwise.facts.content import DataPart
from turnwise.facts.errors import FlowDefinitionError
from turnwise.facts.events import Event
from turnwise.flows.flow import Flow
from turnwise.flows.logged import data_of, task_end_of
from turnwise.flows.plan import graph_of, plan_of
from turnwise.flows.planned import PlannedFlow
from turnwise.flows.tasks import Task
from turnwise.flows.until import AnyComplete
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place
from turnwise.testing.models import ScriptedModel, calls

HERE = direct("news")
CHAIN = {
    "tasks": [
        {"name": "facts", "objective": "Find facts.", "agents": ["reader"]},
        {"name": "text", "objective": "Write it.", "agents": ["writer"], "depends_on": ["facts"]},
    ]
}


def planner(*answers: Any, seen: list[str] | None = None) -> Any:
    """An agent that gives these answers, one after the other, the last for ever; `seen` takes what it was asked."""
    left = [each if isinstance(each, str) else json.dumps(each) for each in answers]

    @agent(name="planner", description="Plans.")
    async def plans(message: str) -> str:
        if seen is not None:
            seen.append(message)
        return left.pop(0) if len(left) > 1 else left[0]

    return plans


def workers(ran: Counter[str]) -> list[Any]:
    def worker(name: str, **card: Any) -> Any:
        @agent(name=name, description=f"The {name}.", **card)
        async def works(context: AgentContext) -> str:
            part = context.assignment
            assert part is not None
            ran[name] += 1
            return f"{name}({', '.join(map(str, part.tasks[0].given.values()))})"

        return works

    return [worker("reader"), worker("writer"), worker("spy", roles=("boss",))]


def news(plans: Any, ran: Counter[str] | None = None, **options: Any) -> PlannedFlow:
    agents = workers(Counter() if ran is None else ran)
    return PlannedFlow("news", planner=plans, agents=agents, description="Makes news.", **options)


def memory(root: Any, **parts: Any) -> Runner:
    return Runner(root, store=SqlSessionStore("sqlite://"), **parts)


async def test_a_plan_is_made_run_and_said() -> None:
    seen: list[str] = []
    runner = memory(news(planner(CHAIN, seen=seen)))
    result = await ask(runner, "What is new?", context=HERE)
    assert result.events[-1].text == "writer(reader())"
    (asked,) = seen
    assert '"What is new?"' in asked
    assert '"reader": "The reader.", "writer": "The writer."}' in asked
    told = [event for event in result.events if plan_of(event)]
    assert [(event.author, event.scope, event.branch) for event in told] == [("news", ("news",), "1")]
    graph = graph_of("news", told[0])
    assert graph is not None
    assert graph.order == ("facts", "text")


async def test_the_planner_is_asked_in_private() -> None:
    result = await ask(memory(news(planner(CHAIN))), "What is new?", context=HERE)
    assert all(event.is_private for event in result.events if event.author == "planner")
    assert "planner" not in result.text


async def test_a_model_plans_and_models_work() -> None:
    plan = {"tasks": [{"name": "n", "objective": "Count.", "agents": ["writer"], "result": {"type": "integer"}}]}
    writes = ScriptedModel(calls("task_succeeded", {"result": "three"}), calls("task_succeeded", {"result": 3}))
    flow = PlannedFlow(
        "news",
        planner=LlmAgent("planner", model=ScriptedModel(f"```json\n{json.dumps(plan)}\n```")),
        agents=[LlmAgent("writer", model=writes)],
    )
    result = await ask(memory(flow), "How many?", context=HERE)
    assert result.events[-1].text == "3"
    assert "Count." in writes.requests[0].messages[-1].text
    assert "depends_on" not in str(writes.requests[0].messages)  # the plan itself is none of its business (D7)


BROKEN: list[tuple[Any, str]] = [
    ("Sorry.", "That is no plan"),
    ({"tasks": [{**CHAIN["tasks"][0], "depends_on": ["text"]}, CHAIN["tasks"][1]]}, "cycle: 'facts' needs 'text'"),
    (
        {"tasks": [{"name": "a", "agents": ["critic"]}]},
        "names the agent 'critic', which does not exist. Known: reader, writer",
    ),
    ({"tasks": [{"name": "a", "agents": ["spy"]}]}, "names the agent 'spy', which does not exist"),
    ({"tasks": [{"name": "a", "agents": ["reader"], "depends_on": ["b"]}]}, "no task 'b', on which 'a' depends"),
    ({"tasks": [CHAIN["tasks"][0], CHAIN["tasks"][0]]}, "two tasks named 'facts'"),
    ({"tasks": [{"name": f"t{n}", "agents": ["reader"]} for n in range(21)]}, "21 tasks, 20 are allowed"),
    ({"tasks": [{"name": "a", "agents": []}]}, "tasks[0].agents"),
    ({"tasks": [{"name": "user", "agents": ["reader"]}]}, "'user' cannot be a task's name"),
    ({"tasks": [{"name": "a", "agents": ["reader"], "result": {"type": "letter"}}]}, '"letter" is no type'),
    ({"tasks": [{"name": "a", "agents": ["reader"], "result": []}]}, "labels have to be texts"),
]


@pytest.mark.parametrize(("broken", "told"), BROKEN)
async def test_what_is_wrong_goes_back_to_the_planner(broken: Any, told: str) -> None:
    seen: list[str] = []
    ran: Counter[str] = Counter()
    result = await ask(memory(news(planner(broken, CHAIN, seen=seen), ran)), "What is new?", context=HERE)
    assert reason(result) == "completed"
    assert told in seen[1]
    assert ran == {"reader": 1, "writer": 1}


@pytest.mark.parametrize(("broken", "told"), BROKEN)
async def test_after_its_tries_it_has_failed_and_nothing_ran(broken: Any, told: str) -> None:
    seen: list[str] = []
    ran: Counter[str] = Counter()
    result = await ask(memory(news(planner(broken, seen=seen), ran, tries=2)), "What is new?", context=HERE)
    assert (reason(result), len(seen), ran) == ("failed", 2, Counter())
    assert result.error is not None
    assert result.error.code == "agent.flow_failed"
    assert "'planner' was asked 2 times for a plan of 'news', and gave none that can be used." in result.error.message
    assert told in result.error.message


async def test_a_caller_with_the_role_has_more_agents() -> None:
    spying = {"tasks": [{"name": "a", "agents": ["spy"]}]}
    boss = MessageContext(direct_agent_id="news", roles=("boss",))
    assert (await ask(memory(news(planner(spying))), "Go.", context=boss)).events[-1].text == "spy()"


async def test_every_plan_has_the_tasks_that_its_end_is_about() -> None:
    seen: list[str] = []
    flow = news(planner({"tasks": [{"name": "a", "agents": ["reader"]}]}, CHAIN, seen=seen), until=AnyComplete("facts"))
    assert (await ask(memory(flow), "Go.", context=HERE)).events[-1].text == ""
    assert "has no task 'facts'" in seen[1]


async def test_a_planner_that_fails_is_the_flows_failure() -> None:
    @agent(name="planner")
    def broken() -> str:
        raise ValueError("no head")

    result = await ask(memory(news(broken)), "Go.", context=HERE)
    assert reason(result) == "failed"
    assert result.error is not None
    assert "'planner' raised ValueError" in result.error.message


NO_PLAN = Content(parts=(DataPart(name="plan", data={"tasks": "(tasks)"}),))


@pytest.mark.parametrize("verdict", [GuardrailVerdict("block", reason="Not that."), GuardrailVerdict("rewrite", NO_PLAN)])
async def test_a_plan_that_a_guardrail_blocks_or_spoils_is_not_run(verdict: GuardrailVerdict) -> None:
    class NoPlans:
        name, reach = "no-plans", None

        async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
            is_plan = any(isinstance(part, DataPart) and part.name == "plan" for part in content.parts)
            return verdict if is_plan else ALLOW

    ran: Counter[str] = Counter()
    runner = memory(news(planner(CHAIN), ran), guardrails=[NoPlans()])
    result = await ask(runner, "Go.", context=HERE)
    assert (reason(result), ran) == ("failed", Counter())
    assert result.error is not None
    assert "blocked by 'no-plans'" in result.error.message


def test_what_cannot_be_is_refused_when_it_is_made() -> None:
    with pytest.raises(FlowDefinitionError, match="tries is 0"):
        news("planner", tries=0)
    with pytest.raises(FlowDefinitionError, match="max_tasks is 0"):
        news("planner", max_tasks=0)
    with pytest.raises(FlowDefinitionError, match="No agent can do"):
        PlannedFlow("news", planner="planner", agents=[])
    with pytest.raises(FlowDefinitionError, match="'planner', which does not exist"):
        memory(news("planner"))


async def test_a_planner_may_ask_the_user() -> None:
    @agent(name="planner")
    async def asks(context: AgentContext) -> str:
        who = (await context.ask("Reader or writer?")).text
        return json.dumps({"tasks": [{"name": "a", "agents": [who]}]})

    ran: Counter[str] = Counter()
    runner = memory(news(asks, ran))
    first = await ask(runner, "Go.", context=HERE)
    assert (reason(first), first.text) == ("waiting", "Reader or writer?")
    second = await ask(runner, "writer", context=HERE)
    assert (second.events[-1].text, ran) == ("writer()", {"writer": 1})


async def test_while_it_waits_in_another_process_the_plan_stays(tmp_path: Path) -> None:
    """D12: the plan is on record, the planner is not asked again."""
    seen: list[str] = []

    def flow() -> PlannedFlow:
        @agent(name="asker")
        async def asks(context: AgentContext) -> str:
            return (await context.ask("Which colour?")).text

        plan = {"tasks": [{"name": "colour", "agents": ["asker"]}]}
        return PlannedFlow("news", planner=planner(plan, CHAIN, seen=seen), agents=[asks, *workers(Counter())])

    url = f"sqlite:///{tmp_path}/s.db"
    first = Runner(flow(), store=SqlSessionStore(url))
    assert reason(await ask(first, "Go.", context=HERE)) == "waiting"
    await first.close()
    second = Runner(flow(), store=SqlSessionStore(url))
    assert (await ask(second, "red")).events[-1].text == "red"
    assert len(seen) == 1


async def test_a_plan_for_agents_that_are_gone_says_so(tmp_path: Path) -> None:
    @agent(name="asker")
    async def asks(context: AgentContext) -> str:
        return (await context.ask("Which colour?")).text

    plan = planner({"tasks": [{"name": "colour", "agents": ["asker"]}]})
    url = f"sqlite:///{tmp_path}/s.db"
    first = Runner(PlannedFlow("news", planner=plan, agents=[asks]), store=SqlSessionStore(url))
    await ask(first, "Go.", context=HERE)
    await first.close()
    result = await ask(Runner(news(plan), store=SqlSessionStore(url)), "red", context=HERE)
    assert result.error is not None
    assert "names the agent 'asker', which does not exist any more" in result.error.message


async def test_it_is_a_task_of_another_flow() -> None:
    """D7: its labels stand below those of the task that it is."""
    seen: list[str] = []
    inner = news(planner(CHAIN, seen=seen))

    @agent(name="printer")
    async def prints(context: AgentContext) -> str:
        assert context.assignment is not None
        return f"printed {context.assignment.tasks[0].given['news']}"

    tasks = [Task("news", "Write the news.", agents=[inner]), Task("print", agents=[prints], depends_on=["news"])]
    result = await ask(memory(Flow("paper", tasks)), "What is new?", context=direct("paper"))
    assert result.events[-1].text == "printed writer(reader())"
    assert "Write the news." in seen[0]
    assert [event.scope for event in result.events if plan_of(event)] == [("paper/news/news",)]


def logged(events: list[Event]) -> tuple[list[Any], dict[str, Any], list[Any]]:
    plans = [plan for event in events if (plan := plan_of(event))]
    closings = {closing.task: closing.result for event in events if (closing := task_end_of(event))}
    return plans, closings, [data_of(event, "flow") for event in events if data_of(event, "flow")]


@pytest.mark.parametrize("attempt_plan", [{"tasks": [{"name": "other", "agents": ["writer"]}]}])
async def test_killed_at_every_commit_it_keeps_its_plan(tmp_path: Path, attempt_plan: Any) -> None:
    """D12: wherever it died, a plan that was on record is the one that is run, also when the planner would plan otherwise."""
    commit = 0
    while True:
        commit += 1
        url = f"sqlite:///{tmp_path}/{commit}.db"
        died = await died_at(commit, url, partial(Runner, news(planner(CHAIN))), "Go.", context=HERE)
        store = SqlSessionStore(url)
        before = logged(await store.events(key()))[0]
        await store.close()
        runner = Runner(news(planner(attempt_plan if before else CHAIN)), store=SqlSessionStore(url))
        invocation = await runner.start("Go.", user="ada", session="s", context=HERE, message_id="m")
        result = await soon(invocation.result())
        plans, closings, ends = logged(await runner.store.events(key()))
        await runner.close()
        assert result.events[-1].text == "writer(reader())"
        assert [[task.name for task in plan.tasks] for plan in plans] == [["facts", "text"]]
        assert (closings, len(ends)) == ({"facts": "reader()", "text": "writer(reader())"}, 1)
        if not died:
            break
    assert commit > 6
