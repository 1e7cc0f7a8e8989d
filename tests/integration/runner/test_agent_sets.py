"""Agents are swapped while messages run: what began keeps its agents, also in another process (behaviours F3, F4)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from runner_play import Crash, Gate, ask, direct, key, kill, reason, soon

from turnwise import AgentContext, ProcessConfig, Runner, agent
from turnwise.agents.members import collect
from turnwise.facts.errors import ConfigError
from turnwise.runner.agent_sets import AgentSet

Process = Callable[..., Runner]
PATIENT = ProcessConfig(unknown_agent_seconds=60, recovery_seconds=0.02)


def billing(version: int) -> Any:
    @agent(name="billing")
    async def bill(context: AgentContext) -> str:
        invoice = await context.ask(f"Which invoice? (version {version})")
        return f"version {version} thanks for {invoice.text}"

    return bill


def tree(*children: Any) -> Any:
    @agent(name="desk", children=list(children))
    def desk(message: str) -> str:
        return f"desk got {message}"

    return desk


def set_of(runner: Runner, root: Any, revision: int, retired: frozenset[str] = frozenset()) -> AgentSet:
    agents, cards = collect(root)
    cascade = runner.cascade.with_policy(runner.cascade.spec, tree=cards)
    return AgentSet(agents, cards, cascade, revision, retired)


def serve(runner: Runner, roots: dict[int, Callable[[], Any]], revision: int, retired: frozenset[str] = frozenset()) -> Runner:
    """Lets the runner serve that revision, and make the others from their roots."""

    async def make(wanted: int) -> AgentSet:
        if wanted not in roots:
            raise ConfigError(f"The definitions of revision {wanted} were pruned.")
        return set_of(runner, roots[wanted](), wanted)

    runner.sets.make_with(make)
    runner.sets.swap(set_of(runner, roots[revision](), revision, retired))
    return runner


TREES: dict[int, Callable[[], Any]] = {
    1: lambda: tree(billing(1)),
    2: lambda: tree(billing(2)),
    3: tree,
}


async def revisions(runner: Runner, session: str = "s") -> list[int]:
    page = await runner.store.decisions.search("app", key=key(session))
    return [decision.selection.revision for decision in reversed(page.items)]


async def test_decisions_name_the_revision_that_served(process: Process) -> None:
    """F4"""
    runner = process(tree(billing(0)))
    assert (await ask(runner, "hi", "s1", context=direct("desk"))).selection.revision == 0  # type: ignore[union-attr]
    serve(runner, TREES, 1)
    result = await ask(runner, "hi", context=direct("desk"))
    assert result.selection is not None
    assert result.selection.revision == 1
    serve(runner, TREES, 2)
    await ask(runner, "hi again", context=direct("desk"))
    assert await revisions(runner) == [1, 2]
    assert (await runner.select("hi")).revision == 2


async def test_a_running_answer_and_those_after_it_each_have_their_own_agents(process: Process) -> None:
    """F3"""
    gate = Gate()
    runner = process(tree(gate.agent))
    first = await runner.start("one", user="ada", session="s", context=direct("gated"))
    await gate.began.wait()
    serve(runner, TREES, 2)
    assert "gated" not in runner.tree
    other = await ask(runner, "two", "other", context=direct("billing"))
    assert other.text == "Which invoice? (version 2)"
    assert runner.sets.kept == 2
    gate.go.set()
    assert (await soon(first.result())).text == "answer to one"
    await runner.idle()
    assert runner.sets.kept == 1


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_question_is_continued_by_the_version_that_asked(process: Process, elsewhere: bool) -> None:
    """F3: also in a process that only ever served a later revision."""
    asking = serve(process(tree(billing(0))), TREES, 1)
    await ask(asking, "hi", context=direct("billing"))
    later = serve(process(tree(billing(0))), TREES, 2) if elsewhere else serve(asking, TREES, 2)
    result = await ask(later, "number 7")
    assert (result.text, reason(result)) == ("version 1 thanks for number 7", "completed")
    assert await revisions(later) == [1, 2], "the reply was decided by what served then"


async def test_a_retired_agent_gets_no_reply_and_nobody_waits_for_it(process: Process) -> None:
    """F3, A7: its question ends, and the message is decided like any other at once."""
    runner = serve(process(tree(billing(0)), process=PATIENT), TREES, 1)
    first = await ask(runner, "hi", context=direct("billing"))
    serve(runner, TREES, 3, frozenset({"billing"}))
    assert (await soon(ask(runner, "number 7"))).text == "desk got number 7"
    events = await runner.store.events(key(), invocation_id=first.invocation_id)
    assert [(event.actions.end.reason, event.actions.end.detail) for event in events if event.actions.end] == [
        ("failed", "Agent 'billing' is no longer in the tree.")
    ]


async def test_what_cannot_be_made_again_ends_with_its_reason(process: Process) -> None:
    """F3"""
    asking = serve(process(tree(billing(0))), TREES, 1)
    await ask(asking, "hi", context=direct("billing"))
    later = serve(process(tree(billing(0))), {2: TREES[2]}, 2)
    result = await ask(later, "number 7")
    assert reason(result) == "failed"
    assert result.error is not None
    assert result.error.code == "agent.revision"
    assert "revision 1" in result.error.message
    assert (await ask(later, "next", context=direct("desk"))).text == "desk got next"


@pytest.mark.parametrize("pruned", [False, True])
async def test_a_dead_processs_answer_is_taken_up_with_the_agents_that_it_began_with(process: Process, pruned: bool) -> None:
    """F3"""
    crash = Crash()

    def cut(version: int) -> Any:
        @agent(name="refunds")
        async def refunds() -> str:
            await crash.here()
            return f"refunded by version {version}"

        return tree(refunds)

    trees: dict[int, Callable[[], Any]] = {1: lambda: cut(1), 2: lambda: cut(2)}
    await kill(
        lambda root, **more: serve(process(root, **more), trees, 1), tree(), crash, message_id="m", context=direct("refunds")
    )
    later = serve(process(tree(), process=PATIENT), {2: trees[2]} if pruned else trees, 2)
    work = asyncio.create_task(later.work())
    result = await soon((await later.attach(user="ada", session="s", message_id="m")).result())
    work.cancel()
    if pruned:
        assert reason(result) == "failed"
        assert result.end is not None
        assert "revision 1" in result.end.detail
    else:
        assert (result.text, reason(result)) == ("refunded by version 1", "completed")
