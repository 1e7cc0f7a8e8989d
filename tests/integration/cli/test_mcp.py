"""`turnwise mcp` as a process of its own, with the protocol's own client and with plain lines."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_play import COMMAND, ENVIRONMENT, turnwise, written
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp_client_play import MODES, structured

from turnwise.cli.line_input import MAX_LINE_BYTES
from turnwise.facts.hints import install_command

AGENTS = """
import asyncio, subprocess, sys
from pathlib import Path
from turnwise import AgentContext, agent

print("while it is imported")

@agent(patterns=["which"])
async def asker(context: AgentContext):
    return f"You said {(await context.ask('Which one?')).text}"

@agent(patterns=["noise"])
def noisy():
    print("to nobody", flush=True)
    sys.stdout.write("left in a buffer")
    sys.__stdout__.write("past what is redirected")
    subprocess.run([sys.executable, "-c", "print('of a child', flush=True)"], check=True)
    heard = subprocess.run([sys.executable, "-c", "import sys; print(len(sys.stdin.read()))"], capture_output=True, check=True)
    return f"A child heard {int(heard.stdout)} characters."

@agent(patterns=["slow"])
async def slow(context: AgentContext):
    await context.say("one")
    Path("began").touch()
    while Path("hold").exists():
        await asyncio.sleep(0.02)
    return "two"

@agent(patterns=["long"])
def long(message):
    return "x" * 100_000

@agent(children=[asker, noisy, slow, long])
def desk(message):
    return f"You said {message}"
"""
CONFIGURATION = "app: test\nroot: mcp_agents:desk\nprocess: {lease_seconds: 1, recovery_seconds: 0.1}\n"
WITH_AGENTS = "gateway: {protocols: {mcp: {agents: true}}}\n"
NOW = "gateway: {grace_seconds: 0}\n"
GREETING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def project(folder: Path, more: str = "") -> Path:
    return written(folder, CONFIGURATION + more, mcp_agents=AGENTS)


def request(id_: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def ask(id_: int, message: str, **arguments: str) -> dict[str, Any]:
    return request(id_, "tools/call", name="ask", arguments={"message": message, **arguments})


def lines(*messages: Any) -> str:
    return "".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in messages)


OPENING = (request(0, "initialize", **GREETING), {"jsonrpc": "2.0", "method": "notifications/initialized"})


def answers(output: str) -> dict[Any, dict[str, Any]]:
    """What was answered, by the id of what was asked. There is nothing else on standard output."""
    found = [json.loads(line) for line in output.splitlines()]
    assert all(each["jsonrpc"] == "2.0" for each in found)
    return {each.get("id"): each for each in found}


def said(answer: dict[str, Any]) -> str:
    return str(answer["result"]["content"][0]["text"])


@pytest.fixture
def start() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts the command with pipes, and kills what is left of it after the test."""
    running: list[subprocess.Popen[str]] = []

    def begin(folder: Path, *options: str) -> "subprocess.Popen[str]":
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        running.append(
            subprocess.Popen([*COMMAND, "mcp", *options], cwd=folder, env=ENVIRONMENT, text=True, encoding="utf-8", **pipes)  # type: ignore[call-overload]
        )
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def tell(process: "subprocess.Popen[str]", *messages: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(lines(*messages))
    process.stdin.flush()


def hear(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None
    heard: dict[str, Any] = json.loads(process.stdout.readline())
    return heard


@pytest.mark.parametrize("mode", MODES)
async def test_the_real_client(tmp_path: Path, mode: str) -> None:
    folder = project(tmp_path, WITH_AGENTS)
    server = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], "mcp", "--user", "zoe"], cwd=str(folder), env=ENVIRONMENT
    )
    async with Client(server, mode=mode, read_timeout_seconds=30) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        agents = ["ask_desk", "ask_asker", "ask_noisy", "ask_slow", "ask_long"]
        assert names == ["ask", "select", "explain", "recall", *agents]
        asked = structured(await client.call_tool("ask", {"message": "which", "session": "s"}))
        call_id = asked["waits"][0]["call_id"]
        told = []

        async def hear_of(progress: float, total: float | None, message: str | None) -> None:
            told.append(message)

        given = {"message": "that", "session": "s", "answer_to": call_id}
        answer = structured(await client.call_tool("ask", given, progress_callback=hear_of))
        assert (answer["text"], told[-1]) == ("You said that", "asker: You said that")
        assert structured(await client.call_tool("ask_desk", {"message": "hi"}))["text"] == "You said hi"
        assert structured(await client.call_tool("select", {"message": "which"}))["agent"] == "asker"
        assert structured(await client.call_tool("explain", {"session": "s"}))["agent"] == "asker"
        assert [each.name for each in (await client.list_resources()).resources if each.name == "s"] == ["s"]
        assert "You said that" in str(await client.read_resource("turnwise://sessions/s"))
    listed = turnwise("sessions", "list", "--json", cwd=folder).stdout.splitlines()[-1]
    assert {session["user"] for session in json.loads(listed)["sessions"]} == {"zoe"}


def test_whatever_is_printed_is_kept_off_the_wire(tmp_path: Path) -> None:
    done = turnwise("mcp", cwd=project(tmp_path), stdin=lines(*OPENING, ask(1, "noise")), cold=True)
    assert done.returncode == 0
    assert said(answers(done.stdout)[1]) == "A child heard 0 characters."
    for words in ("while it is imported", "to nobody", "left in a buffer", "past what is redirected", "of a child"):
        assert words in done.stderr


def test_what_was_asked_before_the_end_is_answered(tmp_path: Path) -> None:
    asked = [ask(number, f"hi {number}") for number in range(1, 20)]
    done = turnwise("mcp", cwd=project(tmp_path), stdin=lines(*OPENING, *asked)[:-1])
    told = answers(done.stdout)
    assert {number: said(told[number]) for number in range(1, 20)} == {n: f"You said hi {n}" for n in range(1, 20)}
    assert (done.returncode, done.stderr) == (0, "while it is imported\n")


def test_lines_that_are_no_messages(tmp_path: Path) -> None:
    odd = ("nonsense", "[1]", "", "  ", '{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}', "[" * 10_000, "{}")
    done = turnwise("mcp", cwd=project(tmp_path), stdin=lines(*OPENING, *odd, request(1, "nothing"), ask(2, "hi")))
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(each["error"]["code"] for each in told if each["id"] is None) == [-32700, -32700, -32700, -32600, -32600]
    known = answers(done.stdout)
    assert (known[1]["error"]["code"], said(known[2])) == (-32601, "You said hi")
    assert done.returncode == 0


def test_an_input_that_ends_at_once(tmp_path: Path) -> None:
    done = turnwise("mcp", cwd=project(tmp_path))
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_ends_what_runs_first(tmp_path: Path, start: Callable[..., Any], by: signal.Signals) -> None:
    folder = project(tmp_path)
    (folder / "hold").touch()
    process = start(folder)
    tell(process, *OPENING, ask(1, "slow", session="s"))
    assert hear(process)["id"] == 0
    while not (folder / "began").exists():
        time.sleep(0.01)
        assert process.poll() is None
    process.send_signal(by)
    assert process.stderr.readline() == "while it is imported\n"
    assert process.stderr.readline().startswith("stopping: 1 answer is being given, for 25 s at most")
    (folder / "hold").unlink()
    assert said(hear(process)) == "one\ntwo"
    rest, _ = process.communicate(timeout=30)
    assert (process.returncode, rest) == (0, "")


def test_what_is_not_finished_another_process_takes_up(tmp_path: Path, start: Callable[..., Any]) -> None:
    """E7."""
    folder = project(tmp_path, NOW)
    (folder / "hold").touch()
    process = start(folder)
    tell(process, *OPENING, ask(1, "slow", session="s", message_id="m"))
    assert hear(process)["id"] == 0
    while not (folder / "began").exists():
        time.sleep(0.01)
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, complaints = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "stopped with 1 unfinished; another process takes it up in 1 s" in complaints
    (folder / "hold").unlink()
    again = turnwise("mcp", cwd=project(tmp_path), stdin=lines(*OPENING, ask(1, "slow", session="s", message_id="m")))
    assert said(answers(again.stdout)[1]) == "one\ntwo"


def test_a_client_that_is_gone_is_no_error(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run(
        [*COMMAND, "mcp"],
        cwd=project(tmp_path),
        env=ENVIRONMENT,
        input=lines(*OPENING, ask(1, "hi"), "nonsense"),
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(write)
    assert (process.returncode, process.stderr) == (0, "while it is imported\n")


@pytest.mark.parametrize(
    ("more", "code", "complaint"),
    [("policy: nope\n", 2, "error[config.policy]"), ("store: 'sqlite:///nowhere/s.db'\n", 3, "error[store")],
)
@pytest.mark.parametrize("is_open", [True, False], ids=["open", "ended"])
def test_what_is_wrong_is_told_on_standard_error(tmp_path: Path, more: str, code: int, complaint: str, is_open: bool) -> None:
    """With an input that stays open it is not its end that ends the process; with one that ended, its end is no excuse."""
    read, write = os.pipe()
    os.write(write, lines(*OPENING).encode())
    if not is_open:
        os.close(write)
    try:
        done = subprocess.run(
            [*COMMAND, "mcp"], cwd=project(tmp_path, more), env=ENVIRONMENT, stdin=read, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(read)
        if is_open:
            os.close(write)
    assert (done.returncode, complaint in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr
    answers(done.stdout)


def test_an_input_that_cannot_be_read_is_an_error_after_what_was_asked_is_answered(tmp_path: Path) -> None:
    much = "x" * (MAX_LINE_BYTES + 1)
    done = turnwise("mcp", cwd=project(tmp_path), stdin=lines(*OPENING, ask(1, "hi"), much, ask(2, "hi")))
    assert said(answers(done.stdout)[1]) == "You said hi"
    assert 2 not in answers(done.stdout)
    assert (done.returncode, "error[input]: Line 4 is longer than 64 MB." in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize("closed", ["<&-", "<&- >&-"])
def test_without_standard_input(tmp_path: Path, closed: str) -> None:
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, "mcp"]
    done = subprocess.run(
        command, cwd=project(tmp_path), env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, "error[input]: There is no standard input." in done.stderr) == (1, "", True)


def test_pipes_that_do_not_block(tmp_path: Path) -> None:
    """As some hosts open them."""
    (into, tell_it), (hear_it, out) = os.pipe(), os.pipe()
    for each in (into, out):
        os.set_blocking(each, False)
    with subprocess.Popen(
        [*COMMAND, "mcp"], cwd=project(tmp_path), env=ENVIRONMENT, stdin=into, stdout=out, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(into)
        os.close(out)
        with os.fdopen(tell_it, "w") as told, os.fdopen(hear_it) as heard:
            assert process.stderr is not None
            assert process.stderr.readline() == "while it is imported\n"
            told.write(lines(OPENING[0]))
            told.flush()
            assert json.loads(heard.readline())["id"] == 0
            asked = [ask(number, "long", session=f"s{number}") for number in range(1, 5)]
            told.write(lines(OPENING[1], *asked))
            told.close()
            time.sleep(1)  # it writes more than a pipe takes, which nobody reads yet
            answered = answers(heard.read())
        assert {number: len(said(answer)) for number, answer in answered.items()} == dict.fromkeys(range(1, 5), 100_000)
        assert process.wait(30) == 0


def test_an_input_that_ends_gives_answers_their_time_once(tmp_path: Path, start: Callable[..., Any]) -> None:
    folder = project(tmp_path, "gateway: {grace_seconds: 1}\n")
    (folder / "hold").touch()
    process = start(folder)
    tell(process, *OPENING, ask(1, "slow", session="s", message_id="m"))
    told, complaints = process.communicate(timeout=30)
    assert (process.returncode, "error" in answers(told)[1]) == (0, True)
    assert "stopping: 1 answer is being given, for 0 s at most" in complaints
    assert "stopped with 1 unfinished; another process takes it up in 1 s" in complaints


def test_a_killed_process_leaves_its_answer_to_the_next(tmp_path: Path, start: Callable[..., Any]) -> None:
    """E7."""
    folder = project(tmp_path)
    (folder / "hold").touch()
    process = start(folder)
    tell(process, *OPENING, ask(1, "slow", session="s", message_id="m"))
    assert hear(process)["id"] == 0
    while not (folder / "began").exists():
        time.sleep(0.01)
        assert process.poll() is None
    process.kill()
    (folder / "hold").unlink()
    again = turnwise("mcp", cwd=folder, stdin=lines(*OPENING, ask(1, "slow", session="s", message_id="m")))
    assert said(answers(again.stdout)[1]) == "one\ntwo"


def test_a_call_that_is_taken_back_goes_on(tmp_path: Path, start: Callable[..., Any]) -> None:
    folder = project(tmp_path)
    (folder / "hold").touch()
    process = start(folder)
    tell(process, *OPENING, ask(1, "slow", session="s", message_id="m"))
    assert hear(process)["id"] == 0
    while not (folder / "began").exists():
        time.sleep(0.01)
        assert process.poll() is None
    tell(process, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    tell(process, ask(2, "slow", session="s", message_id="m"))
    (folder / "hold").unlink()
    heard = hear(process)
    assert (heard["id"], said(heard)) == (2, "one\ntwo")


def test_who_can_be_no_user(tmp_path: Path) -> None:
    done = turnwise("mcp", "--user", "", cwd=project(tmp_path), stdin=lines(*OPENING))
    assert (done.returncode, done.stdout, "error[message" in done.stderr) == (1, "", True), done.stderr


def test_without_the_library_the_extra_is_named(tmp_path: Path) -> None:
    program = "import sys; sys.modules['mcp'] = None; from turnwise.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "mcp"], cwd=project(tmp_path), capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert install_command(["mcp"]) in done.stderr
