"""--json: one document on standard output, and nothing else there, of every command that prints data."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from cli_play import turnwise, written

from turnwise.cli.app import app

AGENTS = """
from turnwise import AgentContext, agent

@agent(examples=["Hello"])
def desk():
    return "hello"

def reader():
    return "Bees dance."

async def editor(context: AgentContext):
    reply = await context.ask("Shall it be printed?")
    return f"The editor says {reply.text}."
"""
CONFIGURATION = """
app: test
root: json_agents:desk
agents:
  - name: report
    kind: flow
    children: [{name: reader, run: json_agents:reader}, {name: editor, run: json_agents:editor}]
    tasks:
      - {name: research, agents: [reader]}
      - {name: approval, agents: [editor], depends_on: [research], interactive: true}
"""
NO_DATA = {
    ("chat",): "a conversation",
    ("run",): "JSON lines by themselves",
    ("serve",): "a process that goes on; its log is JSON",
    ("mcp",): "a process that goes on; it speaks JSON",
    ("a2a-kit",): "a process that goes on",
    ("worker",): "a process that goes on",
    ("console",): "a process that goes on",
    ("schema",): "JSON by itself",
    ("policy", "show"): "text, or a diagram with --format",
    ("tree", "show"): "text, or a diagram with --format",
    ("backup",): "a file",
    ("restore",): "a file",
    ("agents", "export"): "YAML",
    ("memory", "export"): "JSON lines by themselves",
    ("users", "export"): "an archive",
}
LINES = {("sessions", "show"), ("sessions", "explain")}
"""What prints a document for each event."""


def every_command() -> Iterator[tuple[tuple[str, ...], Any]]:
    def walk(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
        below = getattr(command, "commands", None)
        if below is None:
            yield path, command
        for name, each in (below or {}).items():
            yield from walk((*path, name), each)

    return walk((), typer.main.get_command(app))


def test_every_command_that_prints_data_has_the_option() -> None:
    have = {path for path, command in every_command() if any("--json" in option.opts for option in command.params)}
    assert {path for path, _ in every_command()} - have == set(NO_DATA)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = written(tmp_path_factory.mktemp("json"), CONFIGURATION, json_agents=AGENTS)
    (folder / "cases.jsonl").write_text('{"text": "Hello", "agent": "desk"}\n')
    assert turnwise("chat", "-s", "s", cwd=folder, stdin="hello\nhello again\n").returncode == 0
    return folder


def document(folder: Path, *command: str, code: int = 0, stdin: str = "") -> Any:
    said = turnwise(*command, "--json", cwd=folder, stdin=stdin)
    assert said.returncode == code, said.stderr
    assert said.stdout.count("\n") == 1
    return json.loads(said.stdout)


def test_each_prints_one_document(project: Path) -> None:
    """In the order of a session's life, for some take away what others show."""
    seen: set[tuple[str, ...]] = set()

    def told(*command: str, **more: Any) -> Any:
        seen.update(path for path, _ in every_command() if command[: len(path)] == path)
        return document(project, *command, **more)

    checked = told("check")
    assert (checked["ok"], checked["errors"]) == (True, [])
    assert [agent["name"] for agent in checked["agents"]] == ["desk", "report", "reader", "editor"]
    assert told("select", "Hello")["agent"] == "desk"
    assert told("lint")["agents"] == 4
    assert told("eval", "cases.jsonl")["accuracy"] == 1.0
    assert [each["name"] for each in told("flow", "show", "report")["tasks"]] == ["research", "approval"]
    waits = told("flow", "run", "report", "Bees", "-s", "f")
    assert (waits["end"], waits["questions"]) == (None, [{"agent": "editor", "question": "Shall it be printed?"}])
    ended = told("flow", "resume", "-s", "f", stdin="yes\n")
    assert (ended["end"], ended["answer"]) == ("complete", "The editor says yes.")
    assert told("flow", "resume", "-s", "f") == {"session": "f", "user": "local", "flow": None}
    assert told("flow", "show", "report", "-s", "f") == ended
    assert [each["session"] for each in told("sessions", "list")["sessions"]] == ["f", "s"]
    (newest, _) = told("decisions", "list", "-s", "s")["decisions"]
    assert told("decisions", "show", "s", str(newest["sequence"]))["text"] == newest["text"] == "hello again"
    assert told("sessions", "cancel", "s") == {"session": "s", "cancelled": False, "invocation_id": None}
    assert told("sessions", "fork", "s", "copy") == {"session": "copy", "of": "s", "events": 4}
    assert told("sessions", "rewind", "s")["before"] == 3
    assert told("sessions", "delete", "copy", "--yes") == {"session": "copy", "deleted": True, "events": 4}
    key = told("keys", "create", "mine", "--user", "ann")
    assert told("keys", "list")["keys"][0]["id"] == key["id"]
    assert told("keys", "rotate", key["id"])["name"] == "mine"
    assert told("keys", "revoke", key["id"]) == {"id": key["id"], "name": "mine", "revoked": True}
    assert told("keys", "revoke", key["id"])["revoked"] is False
    assert told("init", "new")["written"]
    definitions_in_json(told, project)
    records_in_json(told)
    assert seen == {path for path, _ in every_command()} - set(NO_DATA) - LINES


def definitions_in_json(told: Callable[..., Any], folder: Path) -> None:
    """Each change of a definition prints the version that it stored."""
    assert told("agents", "set", "reader", "description=Reads.")["version"] == 1
    assert [each["name"] for each in told("agents", "list")["definitions"]] == ["reader"]
    assert told("agents", "show", "reader")["description"] == "Reads."
    assert told("agents", "add-example", "reader", "Read it")["examples"] == ["Read it"]
    assert told("agents", "add-pattern", "reader", "^read")["patterns"][0]["regex"] == "^read"
    assert [each["version"] for each in told("agents", "history", "reader")["versions"]] == [3, 2, 1]
    assert [each["path"] for each in told("agents", "diff", "reader", "1", "2")["changes"]] == ["examples"]
    assert told("agents", "disable", "reader")["enabled"] is False
    assert told("agents", "enable", "reader")["enabled"] is True
    assert told("agents", "activate", "reader", "1")["version"] == 6
    assert told("agents", "rollback", "reader", "2")["version"] == 7
    exported = turnwise("agents", "export", "exported.yaml", cwd=folder)
    assert exported.returncode == 0, exported.stderr
    assert told("agents", "import", "exported.yaml") == {"stored": [], "unchanged": 1}
    assert told("agents", "retire", "reader")["status"] == "retired"


def records_in_json(told: Callable[..., Any]) -> None:
    """Memory, holds, upkeep of the store, and what learns from it."""
    assert told("memory", "add", "Ann likes tea.", "--id", "tea")["id"] == "tea"
    assert [each["id"] for each in told("memory", "list")["memories"]] == ["tea"]
    assert [each["memory"]["id"] for each in told("memory", "search", "tea")["found"]] == ["tea"]
    assert told("memory", "forget", "tea") == {"forgotten": 1}
    hold = told("holds", "add", "--user", "ann", "--reason", "A lawsuit.")
    assert told("holds", "list")["holds"] == [hold]
    assert told("holds", "remove", hold["id"]) == {"id": hold["id"], "removed": True}
    assert {each["action"] for each in told("audit", "list")["entries"]} >= {"hold.added", "hold.removed"}
    assert told("prune", "--dry-run")["dry_run"] is True
    assert told("migrate", "--check")["current"] is True
    assert told("replay")["decisions"] >= 1
    assert told("learn", code=1)["learned"] is False


@pytest.mark.parametrize("command", [("sessions", "show", "s"), ("sessions", "explain", "s")], ids=" ".join)
def test_some_print_a_document_for_each_event(project: Path, command: tuple[str, ...]) -> None:
    said = turnwise(*command, "--json", cwd=project)
    assert said.returncode == 0
    assert all(isinstance(json.loads(line), dict) for line in said.stdout.splitlines())


def test_an_error_is_told_on_standard_error_alone(project: Path) -> None:
    commands = {("sessions", "cancel", "none"): 1, ("flow", "show", "none"): 2, ("keys", "revoke", "0123456789ab"): 1}
    for command, code in commands.items():
        said = turnwise(*command, "--json", cwd=project)
        assert (said.stdout, said.returncode) == ("", code)
        assert said.stderr.startswith("error[")


def test_mistakes_of_a_configuration_are_data_of_check(project: Path) -> None:
    (project / "broken.yaml").write_text("app: x\nroot: json_agents:nobody\npolicy: defualt\n")
    told = document(project, "check", "-c", "broken.yaml", code=1)
    assert (told["ok"], told["agents"]) == (False, [])
    assert [error["code"] for error in told["errors"]] == ["config.import_path", "config.policy"]
    assert all(error["fix"] for error in told["errors"])
