"""`turnwise flow`, as it is run."""

import signal
from pathlib import Path

import pexpect
import pytest
from cli_play import Start, Terminal, heard, turnwise

AGENTS = """
import asyncio
import os
import signal
from pathlib import Path
from turnwise import AgentContext

def desk(message):
    return "hello"

def reader(message):
    if "nothing" in message:
        raise ValueError("the library is closed")
    return "three sources"

async def writer(context: AgentContext):
    if Path("kill").exists():
        Path("kill").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    if "slowly" in context.message.text:
        print("SLOW", flush=True)
        await asyncio.sleep(60)
    return "A text from " + context.message.text.rpartition("research: ")[2]

async def boss(context: AgentContext):
    return (await context.ask("Shall it be printed?")).text
"""
CONFIGURATION = """
app: news
root: desk
process: {lease_seconds: 0.5, recovery_seconds: 0.1}
agents:
  - {name: desk, run: 'cli_flow_agents:desk'}
  - name: report
    kind: flow
    children:
      - {name: reader, run: 'cli_flow_agents:reader'}
      - {name: writer, run: 'cli_flow_agents:writer'}
      - {name: boss, run: 'cli_flow_agents:boss'}
    tasks:
      - {name: research, agents: [reader]}
      - {name: draft, agents: [writer], depends_on: [research]}
      - {name: approval, agents: [boss], depends_on: [draft], interactive: true}
"""


@pytest.fixture
def news(tmp_path: Path) -> Path:
    (tmp_path / "cli_flow_agents.py").write_text(AGENTS)
    (tmp_path / "turnwise.yaml").write_text(CONFIGURATION)
    return tmp_path


def flow(*arguments: str, cwd: Path, stdin: str = "") -> tuple[int, str, str]:
    done = turnwise("flow", *arguments, cwd=cwd, stdin=stdin)
    return done.returncode, done.stdout, done.stderr


def test_a_run_waits_and_is_gone_on_with(news: Path) -> None:
    """D12: the answer alone is on standard output."""
    assert flow("run", "report", "Bees", "--session", "s", cwd=news) == (
        0,
        "",
        "report · session s\n→ reader · research · popcorn\n✓ research successful · three sources\n"
        "→ writer · draft · popcorn\n✓ draft successful · A text from three sources\n→ boss · approval · popcorn\n"
        "boss asks: Shall it be printed?\nIt waits. Go on with: turnwise flow resume --session s\n",
    )
    code, shown, hint = flow("show", "report", "--session", "s", cwd=news)
    assert (code, hint) == (0, "It has not ended. Go on with: turnwise flow resume --session s\n")
    assert "▶  approval  running     boss    3" in shown
    assert "boss asks: Shall it be printed?" in shown
    code, _, complaint = flow("run", "report", "Ants", "--session", "s", cwd=news)
    assert (code, complaint.partition("\n")[0]) == (2, "error[usage]: A run of 'report' waits for an answer in session 's'.")
    assert flow("resume", "--session", "s", cwd=news, stdin="\nyes\n") == (
        0,
        "yes\n",
        "report · session s\nboss asks: Shall it be printed?\n✓ approval successful · yes\ncomplete · 3 turns\n",
    )
    assert flow("resume", "--session", "s", cwd=news) == (0, "", "No run of a flow is open in session s.\n")


def test_what_a_dead_process_left_is_taken_up(news: Path) -> None:
    """E7: what was done is not done again."""
    (news / "kill").touch()
    assert turnwise("flow", "run", "report", "--session", "s", cwd=news, cold=True).returncode == -signal.SIGKILL
    code, answer, said = flow("resume", "--session", "s", cwd=news, stdin="yes\n")
    assert (code, answer) == (0, "yes\n")
    assert "↻ attempt 2: the process of attempt 1 stopped before the end\n→ writer · draft" in said
    assert "research" not in said
    assert said.endswith("complete · 3 turns\n")


def test_a_failure_is_a_failure(news: Path) -> None:
    code, answer, said = flow("run", "report", "nothing", "--session", "s", cwd=news)
    assert (code, answer) == (1, "")
    assert "✗ research failed" in said
    assert "– draft skipped" in said
    assert "error[agent.flow_failed]: The flow 'report' did not get done" in said
    assert "Traceback" not in said


def test_pictures_are_printed_or_written(news: Path) -> None:
    code, text, _ = flow("show", "report", "--format", "mermaid", cwd=news)
    assert (code, text.splitlines()[3]) == (0, "flowchart TD")
    assert flow("show", "report", "--format", "svg", "--output", "a.svg", cwd=news) == (0, "", "wrote a.svg\n")
    assert (news / "a.svg").read_text("utf-8").startswith("<svg ")
    assert flow("show", "report", "-f", "svg", "-o", "no/a.svg", cwd=news)[0] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("show", "reprt"), 2, "error[usage]: There is no flow 'reprt'.\n  Did you mean 'report'?\n"),
        (("run", "desk"), 2, "error[usage]: The agent 'desk' is no flow, but of kind 'function'.\n  Known: report.\n"),
        (("resume", "--session", "x"), 1, "error[session.missing]: Session 'x' of user 'local' does not exist.\n"),
        (("show", "report", "--session", "x"), 1, "error[session.missing]: Session 'x' of user 'local' does not exist.\n"),
        (("resume",), 2, "error[usage]: Missing option '--session'"),
        (("show", "report", "--format", "png"), 2, "error[usage]: Invalid value for '--format'"),
    ],
)
def test_mistakes_are_told(news: Path, arguments: tuple[str, ...], code: int, complaint: str) -> None:
    found, _, said = flow(*arguments, cwd=news)
    assert found == code
    assert said.startswith(complaint)


def test_ctrl_c_stops_the_run_and_puts_its_end_on_record(news: Path, start: Start) -> None:
    process = start("flow", "run", "report", "slowly", "--session", "s", cwd=news)
    heard(process, "SLOW")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "error[interrupted]" in said
    assert "ended: cancelled" in flow("show", "report", "--session", "s", cwd=news)[1]


def test_at_a_terminal_the_tasks_stand_below_and_questions_have_a_prompt(news: Path, terminal: Terminal) -> None:
    child = terminal("flow", "run", "report", "Bees", "--session", "s", cwd=news)
    child.expect("research")
    child.expect("boss")
    child.expect("asks: ")
    child.expect("Shall it be printed")
    child.expect("you> ")
    child.sendline("yes")
    child.expect("complete")
    child.expect(pexpect.EOF)
