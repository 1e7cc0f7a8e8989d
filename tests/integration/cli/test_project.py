"""The command line: usage, and init, check and select, in real processes and pipes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_play import COMMAND, turnwise, written


def test_version_and_help(tmp_path: Path) -> None:
    assert turnwise("--version", cwd=tmp_path, cold=True).stdout.startswith("turnwise 0.")
    said = turnwise("--help", cwd=tmp_path, cold=True)
    assert said.returncode == 0
    for word in ("init", "check", "select", "chat", "run", "worker", "sessions", "Exit codes", "130", "TURNWISE_DEBUG"):
        assert word in said.stdout
    for group in ("list", "show", "explain", "cancel", "rewind", "fork", "delete"):
        assert group in turnwise("sessions", "-h", cwd=tmp_path).stdout


def test_help_loads_nothing_heavy() -> None:
    heavy = ("pydantic", "sqlalchemy", "rich", "yaml", "re2")
    code = f"import sys, turnwise.cli.app; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_no_command_is_a_mistake_that_helps(tmp_path: Path) -> None:
    said = turnwise(cwd=tmp_path)
    assert said.returncode == 2
    assert "Usage: " in said.stderr
    assert said.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("selct",), "error[usage]: No such command 'selct'. Did you mean 'select'?"),
        (("select",), "error[usage]: Missing argument 'MESSAGE'."),
        (("select", "x", "--nope"), "error[usage]: No such option: --nope"),
        (("run", "none.jsonl"), "error[usage]: Invalid value for 'FILE': none.jsonl is no file."),
        (("run", "-j", "0"), "error[usage]: Invalid value for '--jobs'"),
        (("select", "x", "--context", "{"), "error[usage]: Invalid value for '--context': This is not JSON"),
        (("select", "x"), "error[config]: There is no turnwise.yaml here or in a folder above."),
        (("check", "-c", "other.yaml"), "error[config]: other.yaml does not exist."),
    ],
)
def test_mistakes_of_usage(tmp_path: Path, arguments: tuple[str, ...], problem: str) -> None:
    said = turnwise(*arguments, cwd=tmp_path)
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.startswith(problem)
    assert "Traceback" not in said.stderr


def test_a_traceback_for_those_who_ask(tmp_path: Path) -> None:
    said = turnwise("check", "-c", "other.yaml", cwd=tmp_path, environment={"TURNWISE_DEBUG": "1"})
    assert said.returncode == 1
    assert "Traceback" in said.stderr


def test_a_new_project_works(shop: Path) -> None:
    checked = turnwise("check", cwd=shop, cold=True)
    assert checked.returncode == 0, checked.stderr
    assert "ok · turnwise.yaml · app shop · 4 agents, 6 patterns" in checked.stdout
    assert "├─ orders" in checked.stdout
    selected = turnwise("select", "Where is my order 1001?", cwd=shop)
    assert selected.stdout.startswith("→ orders · strong_intent_match 0.80 · ")
    talk = turnwise(
        "chat",
        "-s",
        "one",
        cwd=shop,
        stdin="hello\nwhere is my parcel?\n1002\nwhere is my return?\nwhat are your opening hours?\n",
    )
    assert talk.returncode == 0, talk.stderr
    said = [line for line in talk.stdout.splitlines() if not line.startswith("→")]
    assert [line.partition(":")[0] for line in said] == ["desk", "orders", "orders", "orders", "hours"]
    assert "Order 1002 was delivered on Monday." in talk.stdout
    assert "→ orders · transfer · returns hands over" in talk.stdout


def test_check_tells_every_mistake(shop: Path) -> None:
    text = (shop / "turnwise.yaml").read_text().replace("agents:orders", "agents:order").replace("hours\\b'", "hours(?!x)'")
    (shop / "turnwise.yaml").write_text(text + "polcy: x\n")
    said = turnwise("check", cwd=shop)
    assert said.returncode == 1
    assert [line.partition(":")[0] for line in said.stderr.splitlines() if line.startswith("error")] == [
        "error[config.import_path]", "error[config.pattern]", "error[config]",
    ]  # fmt: skip
    assert "Did you mean 'orders'?" in said.stderr
    assert "3 mistakes in turnwise.yaml" in said.stderr
    refused = turnwise("select", "x", cwd=shop)
    assert refused.returncode == 2
    assert "Mistakes in all: 3" in refused.stderr


def test_select_explains_and_gives_json(shop: Path) -> None:
    """A13, E1."""
    plain = turnwise("select", "Where is my order?", cwd=shop).stdout
    explained = turnwise("select", "Where is my order?", "--explain", cwd=shop).stdout
    assert "3. plainly-new  abstained" not in plain
    assert "3. plainly-new  abstained" in explained
    assert "policy default (" in plain
    decided = json.loads(turnwise("select", "Where is my order?", "--json", cwd=shop).stdout)
    assert (decided["agent"], decided["verdicts"][-1]["selector"]) == ("orders", "patterns")
    assert not (shop / "turnwise.db").exists()


def test_select_knows_the_session_and_the_context(shop: Path) -> None:
    """A2, C1."""
    turnwise("chat", "-s", "one", cwd=shop, stdin="where is my order?\n")
    assert "→ orders · contextual_stay" in turnwise("select", "1001", "-s", "one", cwd=shop).stdout
    assert "contextual_stay" not in turnwise("select", "1001", cwd=shop).stdout
    assert "→ orders · contextual_stay" in turnwise("select", "thank you", "-s", "one", cwd=shop).stdout
    assert "→ desk " in turnwise("select", "thank you", cwd=shop).stdout
    directed = turnwise("select", "1001", "--context", '{"direct_agent_id": "hours"}', cwd=shop).stdout
    assert directed.startswith("→ hours · direct_routing 1.00")
    missing = turnwise("select", "1001", "-s", "none", cwd=shop)
    assert missing.returncode == 1
    assert "error[session.missing]" in missing.stderr


def test_a_role_reaches_an_agent_that_only_some_may_reach(tmp_path: Path) -> None:
    """C20."""
    written(
        tmp_path,
        "app: test\nroot: roles_agents:desk\n"
        "agents: [{name: payroll, run: roles_agents:payroll, roles: [staff], patterns: [pay]}]\n",
        roles_agents="from turnwise import agent\n\n@agent\ndef desk():\n    return 'desk'\n\n"
        "def payroll():\n    return 'paid'\n",
    )
    assert turnwise("select", "pay me", cwd=tmp_path).stdout.startswith("→ desk ")
    assert turnwise("select", "pay me", "--role", "night", "--role", "staff", cwd=tmp_path).stdout.startswith("→ payroll ")
    answers = [
        turnwise("chat", *roles, cwd=tmp_path, stdin="pay me\n").stdout.splitlines()[-1]
        for roles in ((), ("--role", "night", "--role", "staff"))
    ]
    assert answers == ["desk: desk", "payroll: paid"]


def test_output_in_a_pipe_is_plain_and_utf8(shop: Path) -> None:
    said = turnwise("select", "Ünïcode 漢字", "--explain", cwd=shop, environment={"FORCE_COLOR": "1"})
    assert "\x1b" not in said.stdout
    assert not [line for line in said.stdout.splitlines() if line != line.rstrip()]
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    odd = turnwise("select", "x", cwd=shop, cold=True, environment=ascii_only)
    assert odd.returncode == 0


def test_a_message_of_undecodable_bytes_is_a_message(shop: Path) -> None:
    done = subprocess.run([*COMMAND, "select", b"caf\xe9 order 1001"], cwd=shop, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
