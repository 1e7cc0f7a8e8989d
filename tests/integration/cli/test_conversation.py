"""The command line: kept sessions, and a conversation at a terminal."""

import json
import time
from pathlib import Path

import pexpect
from cli_play import Terminal, turnwise


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
    assert "Nothing was deleted. Pass --yes" in refused.stderr
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
        "       5. contextual  chosen orders ",
        "    4  completed",
        "    5  where is my return?  (rewound)",
        "returns (rewound) → hands over to orders",
    ):
        assert expected in said
    told = [json.loads(line) for line in turnwise("sessions", "explain", "one", "--json", cwd=shop).stdout.splitlines()]
    assert [data["selection"]["agent"] for data in told if "selection" in data] == ["orders", "orders", "returns"]


def test_choices_are_listed_once(shop: Path) -> None:
    """B2: the data for programs that comes with them is not shown."""
    said = turnwise("chat", cwd=shop, stdin="wo ist meine Bestellung?\n").stdout
    assert "1. " in said
    assert '"label"' not in said


def test_turns_that_do_not_exist(shop: Path) -> None:
    turnwise("chat", "-s", "one", cwd=shop, stdin="hello\n")
    for turn, problem in (("99", "no visible event #99"), ("nope", "no turn 'nope'")):
        said = turnwise("sessions", "rewind", "one", turn, cwd=shop)
        assert said.returncode == 1
        assert problem in said.stderr


def test_a_conversation_at_a_terminal(shop: Path, terminal: Terminal) -> None:
    child = terminal("chat", "--session", "here", cwd=shop)
    child.expect("shop: 4 agents · session here")
    child.expect("you> ")
    child.sendline("where is my order?")
    child.expect(r"→ .*orders.*strong_intent_match 0.80")
    child.expect("Which order is it")
    child.expect("you> ")
    child.sendline("1003")
    child.expect("contextual_stay [01]")
    child.expect("waits for a part")
    child.expect("you> ")
    child.sendline("/why")
    child.expect("1. .*direct.*abstained")
    child.expect("decided by contextual")
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
    child.expect("Ctrl-C again exits at once")
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
