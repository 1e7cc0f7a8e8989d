"""The command line: `turnwise run`, many messages as JSON lines."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pexpect
from cli_play import COMMAND, CONFIGURATION, ENVIRONMENT, Terminal, messages, turnwise


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
    while b"Ctrl-C again exits at once" not in process.stderr.readline():
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
