"""The command line as people and scripts meet it: real processes, pipes, and a terminal."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

COMMAND = [sys.executable, "-c", "from turnwise.cli.app import main; main()"]
ENVIRONMENT = {
    **{
        name: value
        for name, value in os.environ.items()
        if name not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "TURNWISE_DEBUG"}
    },
    "TERM": "xterm",
}
AGENTS = """
import asyncio
from turnwise import AgentContext, agent

@agent
def desk(message):
    return f"You said [bold]{message}[/bold] \\x1b[31mred\\x1b]0;title\\x07"

@agent(patterns=["slow"])
async def slow(context: AgentContext):
    async with context.stream() as out:
        for number in range(200):
            await out.write(f"word{number} ")
            await asyncio.sleep(0.1)

@agent(patterns=["stubborn"])
async def stubborn():
    print("STARTED", flush=True)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

@agent(patterns=["fail"])
def failing():
    raise ValueError("as asked")
"""
CONFIGURATION = (
    "app: test\nroot: desk\nagents: ['cli_agents:desk', 'cli_agents:slow', 'cli_agents:stubborn', 'cli_agents:failing']\n"
)


def turnwise(*arguments: str, cwd: Path, stdin: str | bytes = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end."""
    data = stdin if isinstance(stdin, bytes) else stdin.encode()
    done = subprocess.run(
        [*COMMAND, *arguments], cwd=cwd, input=data, capture_output=True, timeout=60, check=False, env=ENVIRONMENT | environment
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The project that `init` writes."""
    assert turnwise("init", "shop", cwd=tmp_path).returncode == 0
    return tmp_path / "shop"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose agents are slow, stubborn, or fail."""
    (tmp_path / "cli_agents.py").write_text(AGENTS)
    (tmp_path / "turnwise.yaml").write_text(CONFIGURATION)
    return tmp_path


Terminal = Callable[..., Any]


@pytest.fixture
def terminal() -> Any:
    """Runs the command at a terminal."""
    running: list[Any] = []

    def start(*arguments: str, cwd: Path, width: int = 160) -> Any:
        child = pexpect.spawn(
            COMMAND[0],
            [*COMMAND[1:], *arguments],
            cwd=str(cwd),
            encoding="utf-8",
            timeout=30,
            dimensions=(50, width),
            env=ENVIRONMENT,
        )
        running.append(child)
        return child

    yield start
    for child in running:
        child.close(force=True)


def messages(*lines: dict[str, str]) -> str:
    return "".join(json.dumps({"user": "ann", "session": "s", **line}) + "\n" for line in lines)


# The command itself


def test_version_and_help(tmp_path: Path) -> None:
    assert turnwise("--version", cwd=tmp_path).stdout.startswith("turnwise 0.")
    said = turnwise("--help", cwd=tmp_path)
    assert said.returncode == 0
    for word in ("init", "check", "select", "chat", "run", "sessions", "Exit codes", "130", "TURNWISE_DEBUG"):
        assert word in said.stdout
    for group in ("list", "show", "explain", "rewind", "fork", "delete"):
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
    said = turnwise("check", "-c", "other.yaml", cwd=tmp_path, TURNWISE_DEBUG="1")
    assert said.returncode == 1
    assert "Traceback" in said.stderr


# init, check, select


def test_a_new_project_works(shop: Path) -> None:
    assert sorted(path.name for path in shop.iterdir()) == ["README.md", "agents.py", "turnwise.yaml"]
    checked = turnwise("check", cwd=shop)
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


def test_the_readme_of_a_new_project_is_true(shop: Path) -> None:
    commands = [line.strip() for line in (shop / "README.md").read_text().splitlines() if line.startswith("    ")]
    script = "\n".join(["set -e", 'turnwise() { "$PYTHON" -c "from turnwise.cli.app import main; main()" "$@"; }', *commands])
    done = subprocess.run(
        ["/bin/sh", "-c", script], cwd=shop, env=ENVIRONMENT | {"PYTHON": sys.executable}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Order 1002 was delivered" in done.stdout


def test_the_agents_of_a_new_project_are_clean(shop: Path) -> None:
    ruff = Path(sys.executable).parent / "ruff"
    done = subprocess.run(
        [ruff, "check", "--select", "E,F,W,I,B,UP", "--line-length", "128", "."],
        cwd=shop,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_init_overwrites_nothing(shop: Path, tmp_path: Path) -> None:
    (shop / "README.md").unlink()
    said = turnwise("init", "shop", cwd=tmp_path)
    assert said.returncode == 2
    assert "There is already shop/agents.py, shop/turnwise.yaml; nothing was written." in said.stderr
    assert not (shop / "README.md").exists()


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
    assert "3. awaited  abstained" not in plain
    assert "3. awaited  abstained" in explained
    assert "policy default (" in plain
    decided = json.loads(turnwise("select", "Where is my order?", "--json", cwd=shop).stdout)
    assert (decided["agent"], decided["verdicts"][-1]["selector"]) == ("orders", "patterns")
    assert not (shop / "turnwise.db").exists()


def test_select_knows_the_session_and_the_context(shop: Path) -> None:
    """A2, C1."""
    turnwise("chat", "-s", "one", cwd=shop, stdin="where is my order?\n")
    assert "→ orders · resume" in turnwise("select", "1001", "-s", "one", cwd=shop).stdout
    assert "→ desk · " in turnwise("select", "1001", cwd=shop).stdout
    directed = turnwise("select", "1001", "--context", '{"direct_agent_id": "hours"}', cwd=shop).stdout
    assert directed.startswith("→ hours · direct_routing 1.00")
    missing = turnwise("select", "1001", "-s", "none", cwd=shop)
    assert missing.returncode == 1
    assert "error[session.missing]" in missing.stderr


def test_output_in_a_pipe_is_plain_and_utf8(shop: Path) -> None:
    said = turnwise("select", "Ünïcode 漢字", "--explain", cwd=shop, FORCE_COLOR="1")
    assert "\x1b" not in said.stdout
    assert not [line for line in said.stdout.splitlines() if line != line.rstrip()]
    odd = turnwise("select", "x", cwd=shop, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONIOENCODING="ascii")
    assert odd.returncode == 0


def test_a_message_of_undecodable_bytes_is_a_message(shop: Path) -> None:
    done = subprocess.run([*COMMAND, "select", b"caf\xe9 order 1001"], cwd=shop, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


# run


def test_run_answers_lines(project: Path) -> None:
    lines = messages({"message": "one"}, {"message": "two"}, {"message": "three", "session": "t"})
    said = turnwise("run", cwd=project, stdin=lines)
    assert (said.returncode, said.stderr) == (0, "")
    events = [json.loads(line) for line in said.stdout.splitlines()]
    assert len(events) == 6
    texts = [event["content"]["parts"][0]["text"] for event in events if event["session"] == "s" and event["author"] == "user"]
    assert texts == ["one", "two"]
    assert [event["sequence"] for event in events if event["session"] == "s"] == [1, 2, 3, 4]


def test_run_reads_a_file_tells_failures_and_goes_on(project: Path) -> None:
    (project / "in.jsonl").write_text(
        messages({"message": "fail"}) + "nonsense\n" + messages({"message": ""}, {"message": "fine"})
    )
    said = turnwise("run", "in.jsonl", cwd=project)
    assert said.returncode == 1
    assert len(said.stdout.splitlines()) == 4
    for expected in (
        "line 1: error[input]: Session 's'",
        "line 2: error[input]: This is not JSON",
        "line 3: error[message.empty]",
    ):
        assert expected in said.stderr


def test_a_reader_that_leaves_ends_it_quietly(project: Path) -> None:
    (project / "in.jsonl").write_text(messages(*[{"message": f"m{number}", "session": f"s{number}"} for number in range(300)]))
    script = '"$PYTHON" -c "from turnwise.cli.app import main; main()" run in.jsonl; echo "exit $?" >&2'
    done = subprocess.run(
        ["/bin/sh", "-c", f"( {script} ) | head -n 1"], cwd=project, env=ENVIRONMENT | {"PYTHON": sys.executable},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == "exit 0\n"


def test_run_on_a_store_that_cannot_be_used(project: Path) -> None:
    (project / "turnwise.yaml").write_text(CONFIGURATION + "store: sqlite:///broken.db\n")
    (project / "broken.db").write_bytes(b"this is no database at all, and never was one " * 50)
    said = turnwise("run", cwd=project, stdin=messages({"message": "one"}, {"message": "two"}))
    assert (said.returncode, said.stdout) == (3, "")
    assert "error[store.corrupt]: " in said.stderr
    assert "0 lines were answered" in said.stderr
    assert turnwise("sessions", "list", cwd=project).returncode == 3
    assert turnwise("chat", cwd=project, stdin="hello\n").returncode == 3


def test_interrupting_run_leaves_every_end_on_record(project: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "run"], cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(messages({"message": "slow"}).encode())
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["author"] == "user"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    process.communicate(timeout=30)
    shown = turnwise("sessions", "show", "s", "-u", "ann", cwd=project).stdout
    assert "ended cancelled" in shown


def test_a_second_interrupt_ends_run_at_once(project: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "run"], cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(messages({"message": "stubborn"}).encode())
    process.stdin.flush()
    lines = sorted([process.stdout.readline(), process.stdout.readline()])
    assert lines[0] == b"STARTED\n"
    process.send_signal(signal.SIGINT)
    while b"Ctrl-C again leaves" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    process.communicate(timeout=30)


def test_a_bar_at_a_terminal_and_pure_json_in_the_file(project: Path, terminal: Terminal) -> None:
    (project / "in.jsonl").write_text(messages(*[{"message": f"m{number}"} for number in range(20)], {"message": ""}))
    script = '"$0" -c "from turnwise.cli.app import main; main()" run in.jsonl > out.jsonl'
    child = pexpect.spawn(
        "/bin/sh", ["-c", script, sys.executable], cwd=str(project), encoding="utf-8", timeout=60, env=ENVIRONMENT
    )
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 1
    assert "21/21" in child.before
    assert "line 21: " in child.before
    assert "invocation_id" not in child.before
    assert len([json.loads(line) for line in (project / "out.jsonl").read_text().splitlines()]) == 40


# sessions


def test_sessions_from_list_to_delete(shop: Path) -> None:
    """A29, A44."""
    turnwise("chat", "-s", "one", cwd=shop, stdin="hello\nwhere is my order 1001?\n")
    turnwise("chat", "-s", "two", "-u", "ann", cwd=shop, stdin="hello\n")
    rows = turnwise("sessions", "list", cwd=shop).stdout.splitlines()
    assert [row.split()[:3] for row in rows[1:]] == [["ann", "two", "2"], ["local", "one", "4"]]
    page = json.loads(turnwise("sessions", "list", "-n", "1", "--json", cwd=shop).stdout)
    assert page["sessions"][0]["session"] == "two"
    rest = json.loads(turnwise("sessions", "list", "--after", page["next"], "--json", cwd=shop).stdout)
    assert [info["session"] for info in rest["sessions"]] == ["one"]
    assert "--after" in turnwise("sessions", "list", "-n", "1", cwd=shop).stderr

    assert turnwise("sessions", "fork", "one", "copy", "--before", "3", cwd=shop).returncode == 0
    assert "4 events" in turnwise("sessions", "fork", "one", "whole", cwd=shop).stdout
    assert turnwise("sessions", "fork", "one", "copy", cwd=shop).returncode == 1
    assert "as it was before #3" in turnwise("sessions", "rewind", "one", cwd=shop).stdout
    shown = turnwise("sessions", "show", "one", cwd=shop).stdout
    assert "1001" not in shown
    hidden = turnwise("sessions", "show", "one", "--hidden", cwd=shop).stdout
    assert "    3  user (rewound): where is my order 1001?" in hidden
    copied = [json.loads(line) for line in turnwise("sessions", "show", "copy", "--json", cwd=shop).stdout.splitlines()]
    assert [event["sequence"] for event in copied] == [1, 2]

    refused = turnwise("sessions", "delete", "copy", cwd=shop)
    assert refused.returncode == 2
    assert "Nothing was deleted. Say --yes" in refused.stderr
    assert turnwise("sessions", "delete", "copy", "--yes", cwd=shop).returncode == 0
    assert turnwise("sessions", "show", "copy", cwd=shop).returncode == 1


def test_sessions_explain(shop: Path) -> None:
    """A13, E1."""
    turnwise("chat", "-s", "one", cwd=shop, stdin="where is my parcel?\n1002\nwhere is my return?\n")
    turnwise("sessions", "rewind", "one", "5", cwd=shop)
    said = turnwise("sessions", "explain", "one", cwd=shop).stdout
    for expected in (
        "    1  where is my parcel?",
        "       4. patterns  chosen orders 0.80 (strong_intent_match)",
        "    2  orders waits for a reply",
        "       3. awaited  chosen orders 0.90 (resume)",
        "    4  completed",
        "    5  where is my return?  (rewound)",
        "returns → hands over to orders  (rewound)",
    ):
        assert expected in said
    told = [json.loads(line) for line in turnwise("sessions", "explain", "one", "--json", cwd=shop).stdout.splitlines()]
    assert [data["selection"]["agent"] for data in told if "selection" in data] == ["orders", "orders", "returns"]


def test_turns_that_do_not_exist(shop: Path) -> None:
    turnwise("chat", "-s", "one", cwd=shop, stdin="hello\n")
    for turn, problem in (("99", "no visible event #99"), ("nope", "no turn 'nope'")):
        said = turnwise("sessions", "rewind", "one", turn, cwd=shop)
        assert said.returncode == 1
        assert problem in said.stderr


# chat


def test_a_conversation_at_a_terminal(shop: Path, terminal: Terminal) -> None:
    child = terminal("chat", "--session", "here", cwd=shop)
    child.expect("shop: 4 agents · session here")
    child.expect("you> ")
    child.sendline("where is my order?")
    child.expect(r"→ .*orders.*strong_intent_match 0.80")
    child.expect("Which order is it")
    child.expect("you> ")
    child.sendline("1003")
    child.expect("resume 0.90")
    child.expect("waits for a part")
    child.expect("you> ")
    child.sendline("/why")
    child.expect("1. .*direct.*abstained")
    child.expect("decided by awaited")
    child.expect("you> ")
    child.sendline("/session")
    child.expect("turnwise chat --user local --session here")
    child.expect("you> ")
    child.sendline("/nope")
    child.expect("There is no command /nope")
    child.expect("you> ")
    child.sendline("//quit is no command")
    child.expect("→ ")
    child.expect("you> ")
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_ctrl_c_cancels_the_turn_not_the_program(project: Path, terminal: Terminal) -> None:
    """A23."""
    child = terminal("chat", "-s", "x", cwd=project)
    child.expect("you> ")
    child.sendintr()
    child.expect("Ctrl-D or /quit leaves")
    child.expect("you> ")
    child.sendline("slow")
    child.expect("word3")
    child.sendintr()
    child.expect(r"\(cancelled\)")
    child.expect("you> ")
    child.sendline("hello")
    child.expect("You said")
    child.expect("you> ")
    child.sendline("/quit")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert "ended cancelled" in turnwise("sessions", "show", "x", cwd=project).stdout


def test_a_second_ctrl_c_leaves(project: Path, terminal: Terminal) -> None:
    child = terminal("chat", cwd=project)
    child.expect("you> ")
    child.sendline("stubborn")
    child.expect("STARTED")
    child.sendintr()
    child.expect("Ctrl-C again leaves")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130


def test_what_agents_say_is_no_command_to_the_terminal(project: Path, terminal: Terminal) -> None:
    child = terminal("chat", cwd=project)
    child.expect("you> ")
    child.sendline("hi")
    child.expect("You said (.*)\r\n")
    assert child.match[1] == "[bold]hi[/bold] red"
    child.close(force=True)


def test_a_failing_agent_does_not_end_the_conversation(project: Path) -> None:
    """A20."""
    said = turnwise("chat", cwd=project, stdin="fail\nhello\n")
    assert said.returncode == 1
    assert "failing failed [agent.failed]: Agent 'failing' raised ValueError: as asked" in said.stdout
    assert "You said [bold]hello[/bold] red" in said.stdout


def test_answers_come_in_pieces(project: Path, terminal: Terminal) -> None:
    """A19."""
    child = terminal("chat", cwd=project)
    child.expect("you> ")
    began = time.monotonic()
    child.sendline("slow")
    child.expect("word1 ")
    assert time.monotonic() - began < 15  # the whole takes 20 seconds
    child.close(force=True)
