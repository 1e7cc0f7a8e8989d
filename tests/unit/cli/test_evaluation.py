"""Which agents and which policy are judged (behaviour E3)."""

import json
import sys
from pathlib import Path

import pytest

from turnwise.cli.eval import cascade_for, evaluate_files
from turnwise.cli.exits import UsageProblem
from turnwise.facts.errors import CaseError, ConfigError, EncoderError, PolicyError

POLICY = "name: mine\nstages: [patterns]\n"
CONFIGURATION = "app: x\nroot: judged_agents:desk\nagents: ['judged_agents:clerk']\npolicy: {use: adk}\n"
AGENTS = """
from turnwise import agent

@agent
def desk():
    return ""

@agent(patterns=["file"])
def clerk():
    return ""
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "examples.jsonl").write_text(json.dumps({"text": "play a song", "agent": "music"}) + "\n")
    (tmp_path / "cases.jsonl").write_text(json.dumps({"text": "a file please", "agent": "clerk"}) + "\n")
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "turnwise.yaml").write_text(CONFIGURATION)
    (tmp_path / "judged_agents.py").write_text(AGENTS)
    monkeypatch.delitem(sys.modules, "judged_agents", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TURNWISE_CACHE", "off")
    return tmp_path


async def subject(examples: str | None, policy: str | None, config: str | None) -> tuple[str, list[str]]:
    paths = [Path(each) if each else None for each in (examples, config)]
    async with cascade_for(paths[0], policy, paths[1]) as cascade:
        return cascade.spec.name, [card.name for card in cascade.tree]


async def test_agents_and_policy_come_from_where_they_are_said(folder: Path) -> None:
    """E3: examples take the place of the configured agents, a named policy that of the configured one."""
    assert await subject(None, None, None) == ("adk", ["desk", "clerk"])
    assert await subject(None, "policy.yaml", None) == ("mine", ["desk", "clerk"])
    assert await subject("examples.jsonl", "policy.yaml", None) == ("mine", ["nobody", "music"])
    assert await subject("examples.jsonl", None, "turnwise.yaml") == ("adk", ["nobody", "music"])
    assert (await subject("examples.jsonl", None, None))[0] == "default"


async def test_what_is_being_prepared_is_given_up_at_the_end(folder: Path) -> None:
    """E3: after Ctrl-C nobody waits until everything is fitted."""
    async with cascade_for(Path("examples.jsonl"), None, None) as cascade:
        pass
    with pytest.raises(EncoderError, match="closed before"):
        await cascade.prepare()


async def test_everything_is_decided(folder: Path) -> None:
    """E3"""
    found = await evaluate_files([folder / "cases.jsonl"], None, [], "policy.yaml", None, "own")
    assert (found.measures.accuracy, found.subject.policy, found.subject.tuned) == (1.0, "mine", None)
    found = await evaluate_files([folder / "cases.jsonl"], None, [folder / "cases.jsonl"], "policy.yaml", None, "own")
    assert found.subject.tuned == {"accuracy_before": 1.0, "accuracy_after": 1.0}


async def test_what_cannot_be_judged(folder: Path) -> None:
    """E3"""
    with pytest.raises(UsageProblem, match="no policy, and no file, named 'nope'"):
        await subject(None, "nope", None)
    (folder / "bad.yaml").write_text("stages: 5\n")
    with pytest.raises(PolicyError):
        await subject(None, "bad.yaml", None)
    with pytest.raises(ConfigError):
        await subject(None, None, "missing.yaml")
    with pytest.raises(CaseError):
        await subject("missing.jsonl", None, None)
