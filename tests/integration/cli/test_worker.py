"""The command line: `turnwise worker`, beside processes that are killed, and at a terminal."""

import asyncio
import json
import signal
import time
from pathlib import Path

import pexpect
import pytest
from cli_play import CONFIGURATION, IMPATIENT, Start, Terminal, ended, heard, messages, turnwise

from turnwise.facts.content import text_content
from turnwise.facts.messages import Message
from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql import SqlSessionStore

PATIENCE_SECONDS = 30


def kill_in_the_middle(start: Start, project: Path, message: str, sign: str) -> None:
    """Sends a message, and kills the process with -9 when its agent gives the sign that it is at work."""
    process = start("run", cwd=project)
    assert process.stdin is not None
    process.stdin.write(messages({"message": message}))
    process.stdin.flush()
    until = time.monotonic() + PATIENCE_SECONDS
    while not (project / sign).exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    process.kill()
    process.communicate()


@pytest.fixture
def impatient(project: Path) -> Path:
    """A project whose processes take up at once what others left."""
    (project / "turnwise.yaml").write_text(CONFIGURATION + IMPATIENT)
    return project


@pytest.fixture
def crashed(impatient: Path, start: Start) -> Path:
    """The same, with an answer in the middle of which its process was killed."""
    kill_in_the_middle(start, impatient, "where is my parcel?", "seen")
    return impatient


def taken_up(project: Path) -> str:
    """What `worker --once` says when it finds something; until then, the lease of the dead has not run out."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        said = turnwise("worker", "--once", cwd=project)
        assert (said.returncode, said.stderr) == (0, "")
        if "1 taken up" in said.stdout:
            return said.stdout
        assert said.stdout.endswith("  0 taken up\n")
        assert time.monotonic() < until


def test_what_a_killed_process_left_is_answered_once(crashed: Path) -> None:
    """E7."""
    assert "desk" not in turnwise("sessions", "show", "s", "-u", "ann", cwd=crashed).stdout
    said = [line.partition("Z  ")[2] for line in taken_up(crashed).splitlines()]
    assert said[0] == "worker of test: answers messages that other processes left unanswered or unfinished"
    assert said[1] == "sessions stored in sqlite:///turnwise.db · looks once, then ends · at most 100 answers at once"
    assert said[2].startswith("s of ann  attempt 2 by parcels: the process of attempt 1 stopped  invocation-")
    assert said[3].startswith("s of ann  completed after ")
    assert said[4:] == ["1 taken up: 1 completed"]
    assert (crashed / "charged").read_text() == "once "
    assert turnwise("worker", "--once", cwd=crashed).stdout.endswith("  0 taken up\n")


def test_every_attempt_is_shown_to_those_who_ask(crashed: Path) -> None:
    taken_up(crashed)
    shown = turnwise("sessions", "show", "s", "-u", "ann", cwd=crashed).stdout
    assert shown.splitlines()[1:] == [
        "    1  user: where is my parcel?",
        "    4  parcels: ↻ attempt 2: the process of attempt 1 stopped before the end",
        "    5  parcels: I look for it.",
        "    6  parcels: Here it is.",
    ]
    hidden = turnwise("sessions", "show", "s", "-u", "ann", "--hidden", cwd=crashed).stdout
    assert "    2  parcels (attempt 1, superseded): I look for it.\n" in hidden
    explained = turnwise("sessions", "explain", "s", "-u", "ann", cwd=crashed).stdout
    assert explained.splitlines()[-6:] == [
        "    2  parcels (attempt 1, superseded): I look for it.",
        "    3  parcels (attempt 1, superseded) did step charge, kept for the next attempt",
        "    4  parcels ↻ attempt 2: the process of attempt 1 stopped before the end",
        "    5  parcels: I look for it.",
        "    6  parcels: Here it is.",
        "    6  completed",
    ]
    told = turnwise("sessions", "explain", "s", "-u", "ann", "--json", cwd=crashed).stdout.splitlines()
    attempts = [(data["attempt"], data["superseded"], data["text"]) for data in map(json.loads, told)]
    assert attempts[1:] == [
        (1, True, "I look for it."), (1, True, ""), (2, False, ""), (2, False, "I look for it."), (2, False, "Here it is."),
    ]  # fmt: skip
    events = turnwise("sessions", "show", "s", "-u", "ann", "--hidden", "--json", cwd=crashed).stdout.splitlines()
    assert [json.loads(line)["superseded"] for line in events] == [False, True, True, False, False, False]


def test_a_session_says_that_its_process_stopped(crashed: Path) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while (
        "parcels was answering when its process stopped"
        not in turnwise("sessions", "show", "s", "-u", "ann", cwd=crashed).stdout
    ):
        assert time.monotonic() < until


def test_a_worker_works_until_it_is_told_to_stop(crashed: Path, start: Start) -> None:
    worker = start("worker", cwd=crashed)
    heard(worker, "worker of test")
    assert "looks every 0.1 s until Ctrl-C · at most 100 answers at once" in heard(worker, "sessions stored in ")
    heard(worker, "attempt 2 by parcels")
    heard(worker, "completed after")
    worker.send_signal(signal.SIGTERM)
    code, rest = ended(worker)
    assert code == 0
    assert rest.endswith("  1 taken up: 1 completed\n")
    assert len(rest.splitlines()) == 1


def test_a_worker_that_is_told_to_stop_finishes_its_answers(crashed: Path, start: Start) -> None:
    (crashed / "hold").touch()
    worker = start("worker", cwd=crashed)
    heard(worker, "attempt 2 by parcels")
    worker.send_signal(signal.SIGINT)
    assert "stopping: 1 answer is being given, for 25 s at most" in heard(worker, "stopping")
    (crashed / "hold").unlink()
    heard(worker, "completed after")
    assert ended(worker)[0] == 0
    assert "Here it is." in turnwise("sessions", "show", "s", "-u", "ann", cwd=crashed).stdout


def test_what_a_worker_does_not_finish_another_one_takes_up(crashed: Path, start: Start) -> None:
    (crashed / "hold").touch()
    worker = start("worker", "--grace", "0.2", cwd=crashed)
    heard(worker, "attempt 2 by parcels")
    worker.send_signal(signal.SIGTERM)
    code, rest = ended(worker)
    assert code == 0
    assert rest.endswith("  stopped with 1 unfinished; another process takes it up in 1 s\n")
    (crashed / "hold").unlink()
    assert "attempt 3 by parcels: the process of attempt 2 stopped" in taken_up(crashed)


def test_a_second_interrupt_ends_a_worker_at_once(crashed: Path, start: Start) -> None:
    (crashed / "hold").touch()
    worker = start("worker", cwd=crashed)
    heard(worker, "attempt 2 by parcels")
    worker.send_signal(signal.SIGINT)
    heard(worker, "Ctrl-C again exits at once")
    worker.send_signal(signal.SIGINT)
    assert ended(worker)[0] == 130


def test_two_workers_give_one_answer(crashed: Path, start: Start) -> None:
    """E7."""
    workers = [start("worker", cwd=crashed) for _ in range(2)]
    until = time.monotonic() + PATIENCE_SECONDS
    while "Here it is." not in turnwise("sessions", "show", "s", "-u", "ann", cwd=crashed).stdout:
        assert time.monotonic() < until
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    said = "".join(ended(worker)[1] for worker in workers)
    assert said.count("completed after") == 1
    assert (crashed / "charged").read_text() == "once "


def test_an_answer_whose_processes_keep_dying_is_given_up(impatient: Path, start: Start) -> None:
    (impatient / "turnwise.yaml").write_text(CONFIGURATION + IMPATIENT + "limits: {attempts: 1}\n")
    kill_in_the_middle(start, impatient, "where is my parcel?", "seen")
    worker = start("worker", cwd=impatient)
    assert "ended limit:attempts: Its process died" in heard(worker, "s of ann")
    worker.send_signal(signal.SIGTERM)
    assert ended(worker)[1].endswith("  0 taken up · not run again: 1 limit:attempts\n")
    assert "ended limit:attempts" in turnwise("sessions", "explain", "s", "-u", "ann", cwd=impatient).stdout


async def _accepted(project: Path) -> None:
    store = SqlSessionStore(f"sqlite:///{project}/turnwise.db")
    key, message = SessionKey("test", "ann", "s"), Message(id="m1", content=text_content("hello", "user"))
    await store.inbox.accept(key, message, create=True, limit=10)
    await store.close()


def test_a_message_that_nobody_began_is_answered(impatient: Path) -> None:
    """A32."""
    asyncio.run(_accepted(impatient))
    said = taken_up(impatient)
    assert "s of ann  attempt 1 by desk: from the inbox" in said
    assert "You said" in turnwise("sessions", "show", "s", "-u", "ann", cwd=impatient).stdout


def test_a_worker_at_a_terminal_counts(crashed: Path, terminal: Terminal) -> None:
    child = terminal("worker", cwd=crashed)
    child.expect("worker of test")
    child.expect("nothing to do · 0 taken up")
    child.expect("attempt 2.* by parcels")
    child.expect("nothing to do · 1 taken up: 1 completed")
    child.sendintr()
    child.expect("1 taken up: 1 completed")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


@pytest.mark.parametrize("options", [(), ("--once",)])
def test_a_worker_on_a_store_that_will_never_do_leaves(impatient: Path, options: tuple[str, ...]) -> None:
    (impatient / "turnwise.db").write_bytes(b"this is no database at all, and never was one " * 50)
    said = turnwise("worker", *options, cwd=impatient)
    assert said.returncode == 3
    assert "error[store.corrupt]: " in said.stderr


AWAY = """
from pathlib import Path
from turnwise import SqlSessionStore
from turnwise.facts.errors import StoreUnavailable

class Leases:
    def __init__(self, kept):
        self._kept = kept

    def __getattr__(self, name):
        return getattr(self._kept, name)

    async def due(self, app, *, limit=100):
        if Path("away").exists():
            raise StoreUnavailable("The database is not reached.", fix="Wait for it.")
        return await self._kept.due(app, limit=limit)

class Store(SqlSessionStore):
    @property
    def leases(self):
        return Leases(super().leases)
"""


def test_a_worker_waits_for_a_store_that_cannot_be_reached(crashed: Path, start: Start) -> None:
    (crashed / "cli_away.py").write_text(AWAY)
    store = "store: {import: 'cli_away:Store', options: {url: 'sqlite:///turnwise.db'}}\n"
    (crashed / "turnwise.yaml").write_text(CONFIGURATION + IMPATIENT + store)
    (crashed / "away").touch()
    said = turnwise("worker", "--once", cwd=crashed)
    assert said.returncode == 3
    assert "error[store.unavailable]: The database is not reached.\n  Wait for it.\n" in said.stderr
    worker = start("worker", cwd=crashed)
    assert "The database is not reached. Wait for it." in heard(worker, "  warning: ")
    time.sleep(0.5)
    (crashed / "away").unlink()
    heard(worker, "attempt 2 by parcels")
    heard(worker, "completed after")
    worker.send_signal(signal.SIGTERM)
    assert ended(worker)[0] == 0


def test_an_answer_of_another_process_is_cancelled(project: Path, start: Start) -> None:
    """A23."""
    process = start("run", cwd=project)
    assert process.stdin is not None
    process.stdin.write(messages({"message": "slow"}))
    process.stdin.close()
    process.stdin = None
    heard(process, '"sequence":1')
    assert "is answering" in turnwise("sessions", "show", "s", "-u", "ann", cwd=project).stdout
    said = turnwise("sessions", "cancel", "s", "-u", "ann", cwd=project)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout == "slow was stopped; the turn that began with #1 is over.\n"
    code, rest = ended(process)
    assert code == 1
    assert "the answer ended 'cancelled'" in rest
    for turn in ((), ("1",)):
        again = turnwise("sessions", "cancel", "s", *turn, "-u", "ann", cwd=project)
        assert (again.returncode, again.stdout) == (0, "")
        assert "has ended already." in again.stderr


def test_a_question_that_waits_is_cancelled(shop: Path) -> None:
    turnwise("chat", "-s", "one", cwd=shop, stdin="where is my order?\n")
    said = turnwise("sessions", "cancel", "one", cwd=shop)
    assert said.stdout == "orders no longer waits; the turn that began with #1 is over.\n"
    assert "waits for a reply" not in turnwise("sessions", "show", "one", cwd=shop).stdout
