"""The command line: definitions of agents in the database, from `set` to a decision."""

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from cli_play import AGENTS, messages, turnwise, written

CONFIGURATION = """
app: test
root: desk
agents: ['cli_agents:desk', 'cli_agents:failing', 'cli_agents:parcels']
policy: {stages: [{selector: patterns}]}
definitions:
  makers: {shouter: 'cli_agents:shouter'}
  models: {fast: 'openai:gpt-5'}
  environment: [SHOUT]
"""
MAKERS = (
    AGENTS
    + """
def shouter(word="WHAT"):
    def shout(message):
        return f"{word} {message}"
    return shout
"""
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return written(tmp_path, CONFIGURATION, cli_agents=MAKERS)


def done(project: Path, *arguments: str, code: int = 0, **options: Any) -> str:
    """What the command prints; on an error, its error."""
    result = turnwise("agents", *arguments, cwd=project, **options)
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr if code else result.stdout


def chosen(project: Path, text: str, **options: Any) -> str:
    """Whom the app selects, in a process of its own."""
    found: str = json.loads(turnwise("select", text, "--json", cwd=project, **options).stdout)["agent"]
    return found


def test_what_is_set_decides_in_the_next_process(project: Path) -> None:
    """C11, F2, F6: a pattern, a new agent of a registered maker, a disabled one, and the way back."""
    assert chosen(project, "where is my package") == "desk"
    done(project, "add-pattern", "parcels", "package", "--confidence", "0.9", "--note", "They say package.")
    assert chosen(project, "where is my package") == "parcels"
    assert chosen(project, "where is my parcel") == "parcels", "the patterns in code are kept"
    done(project, "set", "shout", "made_by={use: shouter, options: {word: '${SHOUT}'}}", "patterns=[{regex: loud}]", code=2)
    environment = {"SHOUT": "HEY"}
    made = "made_by={use: shouter, options: {word: '${SHOUT}'}}"
    done(project, "set", "shout", made, "patterns=[{regex: loud}]", environment=environment)
    answer = turnwise("run", "-", cwd=project, stdin=messages({"message": "be loud"}), environment=environment)
    assert "HEY be loud" in answer.stdout
    done(project, "disable", "parcels", environment=environment)
    assert chosen(project, "my package", environment=environment) == "desk"
    done(project, "rollback", "parcels", environment=environment)
    assert chosen(project, "my package", environment=environment) == "parcels"
    history = json.loads(done(project, "history", "parcels", "--json"))["versions"]
    assert [(each["version"], each["status"]) for each in history] == [(3, "active"), (2, "active"), (1, "active")]
    assert history[-1]["note"] == "They say package."
    assert history[0]["author"].startswith("cli:")
    assert "enabled" in done(project, "diff", "parcels", "1", "2")
    assert done(project, "diff", "parcels", "1", "3", "--json") == '{"changes":[]}\n'
    done(project, "retire", "shout", environment=environment)
    assert chosen(project, "be loud") == "desk"
    assert "retired" in done(project, "list")


def test_a_draft_serves_when_it_is_activated(project: Path) -> None:
    done(project, "set", "parcels", "patterns=[{regex: package}]", "--draft")
    assert chosen(project, "my package") == "desk"
    done(project, "activate", "parcels", "1")
    assert chosen(project, "my package") == "parcels"
    assert "version 2, active" in turnwise("agents", "show", "parcels", cwd=project).stderr


def test_a_draft_is_tried_and_has_to_keep_the_bounds(project: Path) -> None:
    """F5: nothing of it serves before; `activate` refuses what misses a bound, and stores nothing."""
    sent = messages({"message": "hello"}, {"message": "my package"}, {"message": "my box"})
    assert turnwise("run", "-", cwd=project, stdin=sent).returncode == 0
    done(project, "set", "parcels", "patterns=[{regex: package}]", "examples=[My box]", "--draft")
    text = done(project, "try", "parcels")
    assert "1 of 2 decisions change" in text
    assert "1 messages are examples of this version" in text
    assert "note[example.few]" in text
    trial = json.loads(done(project, "try", "parcels", "1", "--json"))
    assert [(each["before"], each["after"]) for each in trial["flips"]] == [("desk", "parcels")]
    assert "changed is 1, it should be at most 0" in done(project, "try", "parcels", "--max", "changed=0", code=1)
    assert "nothing to measure" in done(project, "activate", "parcels", "--min", "gain=0", code=1)
    assert json.loads(done(project, "list", "--json"))["revision"] == 1
    assert "no figure 'speed'" in done(project, "activate", "parcels", "--min", "speed=1", code=2)
    done(project, "activate", "parcels", "--max", "changed=1", "--max", "errors=0")
    assert chosen(project, "my package") == "parcels"


def test_a_policy_of_the_database(project: Path) -> None:
    done(project, "add-pattern", "parcels", "package")
    done(project, "set", "main", "--policy", "policy={stages: [identity]}")
    assert chosen(project, "my package") == "desk"
    error = done(project, "set", "main", "--policy", "policy={stages: [nonsense]}", code=2)
    assert "nonsense" in error
    error = done(project, "set", "main", "--policy", "policy={stages: [{selector: 'os:system'}]}", code=2)
    assert "import path" in error
    done(project, "rollback", "main", "1", "--policy")
    done(project, "retire", "main", "--policy")
    assert chosen(project, "my package") == "parcels"


def test_a_file_goes_in_and_out(project: Path) -> None:
    text = """
agents:
  - name: parcels
    examples: [Where is my parcel?]
    patterns:
      - {regex: '\\bparcel\\b', confidence: 0.9}
  - name: greeter
    parent: desk
    made_by:
      kind: reply
      templates:
        - {text: ["Hello, {who}.", "Hi {who}!"], channels: [web]}
        - text: [Hello.]
      slots:
        who: {pattern: 'I am (\\w+)'}
    patterns: [{regex: hello}]
policies:
  - name: main
    policy: {stages: [patterns]}
"""
    (project / "definitions.yaml").write_text(text)
    assert "3 stored, 0 unchanged" in turnwise("agents", "import", "definitions.yaml", cwd=project).stderr
    assert chosen(project, "hello there") == "greeter"
    assert "Hello." in turnwise("run", "-", cwd=project, stdin=messages({"message": "hello there"})).stdout
    exported = done(project, "export")
    (project / "again.yaml").write_text(exported)
    assert "0 stored, 3 unchanged" in turnwise("agents", "import", "again.yaml", cwd=project).stderr
    assert json.loads(done(project, "list", "--json"))["revision"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["set", "parcels", "patterns=[{regex: '(?=x)'}]"], "look-around"),
        (["set", "parcels", "made_by={use: shouter}"], "taken by an agent in code"),
        (["set", "parcels", "parent=parcels"], "below themselves"),
        (["set", "parcels", "parent=nobody"], "does not exist"),
        (["set", "desk", "enabled=false"], "root 'desk' cannot be disabled"),
        (["set", "desk", "parent=parcels"], "no parent"),
        (["set", "new", "description=x"], "no agent 'new' in code"),
        (["set", "new", "made_by={use: shoter}"], "'shoter', which is not registered"),
        (["set", "new", "made_by={kind: llm, model: big}"], "'big', which is not registered"),
        (["set", "new", "made_by={kind: llm, model: fast, tools: [rm]}"], "'rm', which is not registered"),
        (["set", "new", "made_by={use: shouter, options: {wrd: x}}"], "raised TypeError"),
        (["set", "new", "made_by={use: shouter, options: {word: '${HOME}'}}"], "HOME, which is not released"),
        (["set", "new", "made_by={kind: quantum}"], "no known form"),
        (["set", "new", "made_by={remote: 'http://127.0.0.1:8000/'}"], "not public"),
        (["set", "new", "made_by={remote: 'file:///etc/passwd'}"], "http"),
        (["set", "parcels", "colour=red"], "'colour'"),
        (["set", "parcels", "enabled=maybe"], "true or false"),
        (["set", "parcels", "examples"], "KEY=VALUE"),
        (
            [
                "set",
                "parcels",
                "examples=[a",
            ],
            "no YAML",
        ),
        (["set", "parcels", "tags=[x]", "--expect", "3"], "no version, but version 3 was expected"),
        (["show", "nobody"], "no definition"),
        (["rollback", "parcels"], "no definition"),
        (["import", "absent.yaml"], "does not exist"),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(project: Path, arguments: list[str], words: str) -> None:
    """F1, F2."""
    assert words in done(project, *arguments, code=2)
    assert json.loads(done(project, "list", "--json")) == {"revision": 0, "definitions": []}


LARGE = {
    "description": ("agents: [{name: parcels, description: " + "x" * 10_000_000 + "}]", "at most 20,000 are allowed"),
    "examples": ("agents: [{name: parcels, examples: [" + "x, " * 100_001 + "]}]", "at most 100,000 are allowed"),
    "circle": (
        "agents: [{name: parcels, parent: failing}, {name: failing, parent: parcels}]",
        "below themselves",
    ),
    "root": ("agents: [{name: desk, status: retired}]", "root 'desk' cannot be retired"),
    "nested": ("agents: [{name: parcels, patterns: [{regex: x, colour: red}]}]", "patterns.0.colour"),
    "twice": ("agents: [{name: parcels}, {name: parcels}]", "two definitions of the agent 'parcels'"),
    "number": ("agents: [{name: parcels, patterns: [{regex: x, confidence: .nan}]}]", "no JSON value"),
    "binary": ("agents: \x01", "definitions.yaml"),
    "list": ("- parcels", "definitions.yaml"),
}


@pytest.mark.parametrize("case", LARGE)
def test_a_file_with_one_mistake_changes_nothing(project: Path, case: str) -> None:
    """F1, F2: nothing of it, also what is right in it."""
    text, words = LARGE[case]
    good = "policies: [{name: main, policy: {stages: [identity]}}]"
    (project / "definitions.yaml").write_text(f"{text}\n{good}\n")
    error = done(project, "import", "definitions.yaml", code=2)
    assert words in error
    assert len(error) < 2_000
    assert json.loads(done(project, "list", "--json")) == {"revision": 0, "definitions": []}


def test_the_root_is_not_retired(project: Path) -> None:
    """F2"""
    done(project, "set", "desk", "tags=[x]")
    assert "root 'desk' cannot be retired" in done(project, "retire", "desk", code=2)
    assert json.loads(done(project, "list", "--json"))["revision"] == 1


def test_a_definition_of_a_newer_release_is_kept_and_said(project: Path) -> None:
    """F3: it does not serve, no command overwrites its unknown fields, and a rollback goes past it."""
    done(project, "set", "parcels", "tags=[one]")
    done(project, "set", "parcels", "patterns=[{regex: box}]")
    with contextlib.closing(sqlite3.connect(next(project.rglob("*.db")))) as database:
        database.execute("UPDATE turnwise_definitions SET body = json_set(body, '$.mood', 'good') WHERE version = 2")
        database.commit()
    for change in (["enable", "parcels"], ["add-example", "parcels", "x"], ["set", "parcels", "tags=[two]"]):
        assert "mood" in done(project, *change, code=2)
    assert "mood" in done(project, "activate", "parcels", "2", code=2)
    assert "mood: good" in done(project, "show", "parcels")
    assert json.loads(done(project, "list", "--json"))["revision"] == 2
    assert (chosen(project, "my box"), chosen(project, "my parcel")) == ("desk", "parcels"), "as in code"
    done(project, "rollback", "parcels", "1")
    shown = done(project, "show", "parcels")
    assert "one" in shown
    assert "mood" not in shown


def test_a_tag_in_a_template_is_inert(project: Path) -> None:
    """B4"""
    done(
        project,
        "set",
        "greeter",
        "made_by={kind: reply, templates: [{text: ['<next>parcels</next>']}]}",
        "patterns=[{regex: hi}]",
    )
    lines = turnwise("run", "-", cwd=project, stdin=messages({"message": "hi"})).stdout.splitlines()
    assert [json.loads(line)["author"] for line in lines] == ["user", "greeter"]
    assert "next>parcels" in lines[1]
