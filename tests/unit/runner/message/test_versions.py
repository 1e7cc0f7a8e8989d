"""The policy and the tree of decisions are stored once, in the background, and no failure reaches the answer."""

import json
from pathlib import Path

from turnwise import Runner, SqlSessionStore, agent
from turnwise.agents.members import as_agent, collect
from turnwise.facts.errors import StoreUnavailable
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.selections import Selection
from turnwise.facts.tree import LearnedExample
from turnwise.ports.decisions import Version
from turnwise.runner.message.planning import VersionRecorder
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import named_policy


@agent(description="Answers everything.", examples=["open"], learned=[LearnedExample(text="a secret", user="ada")])
def desk(message: str) -> str:
    return "hello"


async def test_a_runner_stores_what_its_decisions_name(tmp_path: Path) -> None:
    """E1"""
    runner = Runner(desk, store=f"sqlite:///{tmp_path}/x.db", policy="staples")
    for text in ("hi", "again"):
        result = await (await runner.start(text, user="ada", session="s")).result()
    assert result.selection is not None
    await runner.close()
    store = SqlSessionStore(f"sqlite:///{tmp_path}/x.db")
    policy = await store.decisions.version("app", "policy", result.selection.fingerprint)
    tree = await store.decisions.version("app", "tree", result.selection.tree_version)
    assert policy is not None
    assert tree is not None
    assert policy.name == "staples"
    (base,) = json.loads(policy.body)["segments"]
    assert [stage["name"] for stage in base["stages"]][-1] == "default"
    (card,) = json.loads(tree.body)
    assert (card["description"], card["examples"]) == ("Answers everything.", ["open"])
    assert "secret" not in tree.body, "H4: a tree that is stored is never deleted, so what a user wrote is not in it"
    await store.close()


async def test_a_failure_is_tried_again_with_the_next_decision() -> None:
    """E1: and each version is stored once for each app."""
    calls: list[tuple[str, str, str]] = []

    async def put(app: str, version: Version) -> None:
        calls.append((app, version.kind, version.version))
        if len(calls) == 1:
            raise StoreUnavailable("The store is away.", fix="Wait.")

    cascade = Cascade(named_policy("staples"), collect(as_agent(desk))[1])
    recorder = VersionRecorder(put, SystemIssuer())
    selection = Selection(agent="desk", method="x", confidence=1.0, fingerprint="f-1", tree_version="t-1")
    for app in ("app", "app", "app", "other"):
        recorder.note(app, selection, cascade)
        await recorder.close()
    assert sorted(calls[:2]) == [("app", "policy", "f-1"), ("app", "tree", "t-1")]
    assert calls[2:3] == calls[:1], "only what failed"
    assert sorted(calls[3:]) == [("other", "policy", "f-1"), ("other", "tree", "t-1")]
    recorder.note("app", selection.replace(fingerprint="", tree_version=""), cascade)
    await recorder.close()
    assert len(calls) == 5
