"""The command line: what labels teach, as drafts (behaviours H3–H5)."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml
from cli_play import turnwise, written

from turnwise import Runner, SqlSessionStore, agent
from turnwise.access.api_keys import caller_id
from turnwise.facts.labels import Label
from turnwise.facts.sessions import SessionKey
from turnwise.learning.draft_gain import JUDGED
from turnwise.ports.audit import Act
from turnwise.testing import BagOfWordsEncoder

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


def test_what_a_server_with_one_key_cannot_teach_is_said(desk: Path) -> None:
    """H2: its users count as one source. The output names the key, the number of labels, and what to type."""
    made = turnwise("keys", "create", "web", "--for-users", "--json", cwd=desk)
    id_ = json.loads(made.stdout)["id"]

    @agent(name="desk", children=[agent(name="garden")(lambda: "ok"), agent(name="plumbing")(lambda: "ok")])
    def root() -> str:
        return "How can I help?"

    async def rate() -> None:
        store = SqlSessionStore(f"sqlite:///{desk / 's.db'}")
        runner = Runner(root, app="test", store=store, encoder=BagOfWordsEncoder())
        for number in range(12):
            await (await runner.start("My tomatoes wilt", user=f"u{number}", session="s")).result()
            label = Label(source="user", author=caller_id(id_), agent="garden")
            await store.labels.put(SessionKey("test", f"u{number}", "s"), 1, label, actor=label.author)
        await runner.close()

    asyncio.run(rate())
    plain = turnwise("learn", cwd=desk).stdout
    assert "7 left out: over the cap of its source" in plain
    assert f"7 of the labels over the cap are by 7 users of key {id_} (web)." in plain
    assert f"turnwise learn --trust {id_}" in plain
    found = json.loads(turnwise("learn", "--json", cwd=desk).stdout)
    assert found["capped_credentials"] == [{"key": id_, "name": "web", "labels": 7, "users": 7}]
    trusting = turnwise("learn", "--trust", id_, cwd=desk).stdout
    assert "12 labels" in trusting
    assert "cap" not in trusting


def test_only_the_id_of_a_key_can_be_trusted(desk: Path) -> None:
    refused = turnwise("learn", "--trust", "my-server", cwd=desk)
    assert (refused.returncode, "'my-server' is no id of a key" in refused.stderr) == (2, True)
    assert "keys list" in refused.stderr
    assert turnwise("learn", "--trust", "0123456789ab", cwd=desk).returncode == 1
