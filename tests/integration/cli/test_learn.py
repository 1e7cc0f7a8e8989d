"""The command line: what labels teach, as drafts (behaviours H3–H5)."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml
from cli_play import turnwise, written

from turnwise import SqlSessionStore
from turnwise.learning.wear import JUDGED
from turnwise.ports.audit import Act

AGENTS = """
from turnwise import agent

@agent(examples=["a leaking tap"])
def garden():
    return "ok"

@agent(examples=["flower beds"])
def plumbing():
    return "ok"

@agent(children=[garden, plumbing])
def desk():
    return "How can I help?"
"""
SAID = {
    "garden": ("My tomatoes wilt", "The hedge has yellow leaves", "When do I prune roses", "Slugs eat the lettuce"),
    "plumbing": ("The sink drips", "The toilet runs on", "No hot water today", "My radiator knocks"),
}
FORMS = ("{}", "{}, can you help", "Hello, {}", "{} again", "please: {}", "{} since Monday", "{}!!", "hm, {} I think")


PLAIN = """
from turnwise import SqlSessionStore

class Plain:
    def __init__(self):
        self._store = SqlSessionStore("sqlite://")

    def __getattr__(self, name):
        if name == "definitions":
            raise AttributeError(name)
        return getattr(self._store, name)
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """An app whose examples are with the wrong agents, and cases that say so."""
    folder = written(tmp_path, "app: test\nroot: learn_agents:desk\nstore: sqlite:///s.db\n", learn_agents=AGENTS)
    pairs = [(form.format(text), name) for form in FORMS for name, texts in SAID.items() for text in texts]
    (folder / "cases.jsonl").write_text("".join(json.dumps({"text": text, "agent": name}) + "\n" for text, name in pairs))
    return folder


def test_what_is_learned_is_a_draft_until_it_is_activated(desk: Path) -> None:
    """H4: the same labels give the same draft; each look at the later messages is counted."""
    options = ("learn", "--from", "cases.jsonl", "--draft")
    unmade = json.loads(turnwise("learn", "--from", "cases.jsonl", "--json", cwd=desk).stdout)
    assert (unmade["drafts_judged"], unmade["drafts"], (desk / "s.db").exists()) == (None, [], False), "it only reads"
    first = json.loads(turnwise(*options, "--json", cwd=desk).stdout)
    assert first["learned"]
    assert (first["drafts_judged"], first["worn"]) == (1, False)
    names = [(each["kind"], each["name"], each["version"], each["new"]) for each in first["drafts"]]
    assert names == [("agent", name, 1, True) for name in first["add"]]
    again = json.loads(turnwise(*options, "--json", cwd=desk).stdout)
    assert again == {**first, "drafts_judged": 2, "drafts": [{**each, "new": False} for each in first["drafts"]]}

    def right() -> float:
        return float(json.loads(turnwise("eval", "cases.jsonl", "--json", cwd=desk).stdout)["accuracy"])

    before = right()
    for name in first["add"]:
        assert turnwise("agents", "activate", name, cwd=desk).returncode == 0
    assert right() > before
    (entry, _) = json.loads(turnwise("audit", "list", "--action", "learning.judged", "--json", cwd=desk).stdout)["entries"]
    assert "leaves" not in json.dumps(entry)


def test_the_proposal_is_written_and_worn_messages_are_named(desk: Path) -> None:
    """H3: after ten drafts on the same later messages."""
    assert turnwise("chat", cwd=desk, stdin="Hello\n").returncode == 0  # makes the database
    shown = turnwise("learn", "--from", "cases.jsonl", "-o", "learned.yaml", cwd=desk)
    assert "changes are proposed." in shown.stdout
    assert "worn" not in shown.stdout
    proposed = yaml.safe_load((desk / "learned.yaml").read_text())
    assert {key for each in proposed["agents"].values() for key in each} <= {"learned", "drop_examples", "patterns"}

    async def look_again() -> None:
        store = SqlSessionStore(f"sqlite:///{desk / 's.db'}")
        (entry,) = (await store.audit.list("test", action=JUDGED)).items
        for _ in range(9):
            await store.audit.record("test", Act("cli", JUDGED, details=entry.details))
        await store.close()

    asyncio.run(look_again())
    worn = turnwise("learn", "--from", "cases.jsonl", cwd=desk)
    assert "The later messages have judged 11 drafts and are worn: label newer decisions." in worn.stdout
    assert json.loads(turnwise("agents", "list", "--json", cwd=desk).stdout)["definitions"] == [], "drafts need --draft"


def test_drafts_need_a_database(desk: Path) -> None:
    (desk / "plain_store.py").write_text(PLAIN)
    (desk / "turnwise.yaml").write_text("app: test\nroot: learn_agents:desk\nstore: {import: 'plain_store:Plain'}\n")
    refused = turnwise("learn", "--from", "cases.jsonl", "--draft", cwd=desk)
    assert refused.returncode == 2
    assert "keeps no definitions" in refused.stderr


def test_only_the_id_of_a_key_can_be_trusted(desk: Path) -> None:
    refused = turnwise("learn", "--trust", "my-server", cwd=desk)
    assert (refused.returncode, "'my-server' is no id of a key" in refused.stderr) == (2, True)
    assert "keys list" in refused.stderr
    assert turnwise("learn", "--trust", "0123456789ab", cwd=desk).returncode == 1
