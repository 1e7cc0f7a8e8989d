"""`turnwise flow`, as it is run."""

import signal
from pathlib import Path

import pexpect
import pytest
from cli_play import Start, Terminal, heard, shows, turnwise, written

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


PLANNING = """
from turnwise import AgentContext, Flow, Task, agent
from turnwise.flows.planned import PlannedFlow
from turnwise.flows.planned import Several
from turnwise.selection.verdicts import abstained
from turnwise.facts.selections import Verdict

@agent
async def planner(context: AgentContext):
    if "unsure" in context.message.text:
        await context.ask("For whom?")
    if "hopeless" in context.message.text:
        raise ValueError("no idea")
    return {"tasks": [
        {"name": "look", "objective": "Look for it.", "agents": ["finder"]},
        {"name": "write", "agents": ["author"], "depends_on": ["look"]},
    ]}

@agent(description="Finds things.")
def finder(message):
    return "three facts"

@agent
async def author(context: AgentContext):
    return (await context.ask("How long?")).text

paper = PlannedFlow("paper", planner=planner, agents=[finder, author])
several = Several()
outer = Flow("outer", [Task("prepare", agents=["paper"])])

def desk(message):
    return "hello"

def one(message):
    return "One."

async def two(context: AgentContext):
    return (await context.ask("Which two?")).text

class Says:
    name = "says"

    def __init__(self, tree):
        pass

    async def select(self, request):
        if request.text != "both":
            return abstained(self.name, "Nobody is named.")
        return Verdict(selector=self.name, outcome="chosen", agent="one", method="says", reason="Said.", also=("two",))
"""
PLANNED = """
app: papers
root: desk
selectors: {says: 'cli_flow_planned:Says'}
policy: {name: mine, several: several, stages: [direct, says, resume, default]}
agents:
  - {name: desk, run: 'cli_flow_planned:desk'}
  - {name: one, run: 'cli_flow_planned:one'}
  - {name: two, run: 'cli_flow_planned:two'}
  - cli_flow_planned:paper
  - cli_flow_planned:several
  - cli_flow_planned:outer
"""
PLAN = (
    "plan · 2 tasks\ntask   agents  needs  result  objective\nlook   finder         text    Look for it.\n"
    "write  author  look   text\n"
)
STEPS = "→ finder · look · popcorn\n✓ look successful · three facts\n→ author · write · popcorn\nauthor asks: How long?\n"


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    return written(tmp_path, PLANNED, cli_flow_planned=PLANNING)


@pytest.fixture
def news(tmp_path: Path) -> Path:
    return written(tmp_path, CONFIGURATION, cli_flow_agents=AGENTS)


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
        "boss asks: Shall it be printed?\nIt waits. Continue with: turnwise flow resume --session s\n",
    )
    code, shown, hint = flow("show", "report", "--session", "s", cwd=news)
    assert (code, hint) == (0, "It has not ended. Continue with: turnwise flow resume --session s\n")
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


def test_a_run_that_another_process_is_at_is_watched_and_taken_up_when_that_dies(news: Path, start: Start) -> None:
    """E7: who waits is told for what."""
    first = start("flow", "run", "report", "slowly", "--session", "s", cwd=news)
    heard(first, "SLOW")
    second = start("flow", "resume", "--session", "s", cwd=news)
    heard(second, "Another process executes this run, so it is only watched; if that process is dead, the run continues here ")
    first.kill()
    first.wait()
    heard(second, "attempt 2: the process of attempt 1 stopped before the end")
    heard(second, "SLOW")
    second.send_signal(signal.SIGINT)
    said, _ = second.communicate(timeout=30)
    assert second.returncode == 130, said


def test_hints_name_the_configuration_that_was_named(news: Path) -> None:
    (news / "turnwise.yaml").rename(news / "the press.yaml")
    told = "turnwise flow resume --session s --config 'the press.yaml'\n"
    assert flow("run", "report", "Bees", "-s", "s", "-c", "the press.yaml", cwd=news)[2].endswith(f"Continue with: {told}")
    assert flow("show", "report", "-s", "s", "-c", "the press.yaml", cwd=news)[2].endswith(f"Continue with: {told}")
    assert flow("run", "report", "Ants", "-s", "s", "-c", "the press.yaml", cwd=news)[2].endswith(f"session: {told}")
    assert flow("resume", "-s", "s", "-c", "the press.yaml", cwd=news)[2].endswith(f"Continue with: {told}")


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


MISSING = "error[session.missing]: Session 'x' of user 'local' does not exist.\n  See which there are: turnwise sessions list"


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("show", "reprt"), 2, "error[usage]: There is no flow 'reprt'.\n  Did you mean 'report'?\n"),
        (("run", "desk"), 2, "error[usage]: The agent 'desk' is no flow, but of kind 'function'.\n  Known: report.\n"),
        (("resume", "--session", "x"), 1, MISSING + "\n"),
        (("show", "report", "--session", "x", "-c", "turnwise.yaml"), 1, MISSING + " --config turnwise.yaml\n"),
        (("resume",), 2, "error[usage]: Missing option '--session'"),
        (
            ("show", "report", "--format", "png"),
            2,
            "error[usage]: Invalid value for '--format' / '-f': 'png' is not one of 'terminal', 'mermaid', 'svg'.\n",
        ),
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
    assert "The run is cancelled" in said
    assert "error[interrupted]" in said
    assert "ended: cancelled" in flow("show", "report", "--session", "s", cwd=news)[1]


def test_at_a_terminal_the_tasks_stand_below_and_questions_have_a_prompt(news: Path, terminal: Terminal) -> None:
    child = terminal("flow", "run", "report", "Bees", "--session", "s", cwd=news)
    shows(child, "research", "boss", "asks: ", "Shall it be printed", "you> ")
    child.sendline("yes")
    shows(child, "complete", pexpect.EOF)


def test_ctrl_c_at_a_question_leaves_a_run_that_waits(news: Path, terminal: Terminal) -> None:
    child = terminal("flow", "run", "report", "Bees", "--session", "s", cwd=news)
    shows(child, "you> ")
    child.sendintr()
    shows(child, "It waits", "error", pexpect.EOF)


WAITS = "It waits. Continue with: turnwise flow resume --session s\n"
GOES_ON = "It has not ended. Continue with: turnwise flow resume --session s\n"


def test_a_plan_is_shown_when_it_comes_and_drawn_from_the_log(papers: Path) -> None:
    assert flow("show", "paper", cwd=papers) == (
        0,
        "paper · planned by planner · at most 20 tasks · strategy popcorn · at most 10 turns a task\n"
        "agent   description\nfinder  Finds things.\nauthor\n",
        "",
    )
    code, _, said = flow("show", "paper", "--format", "svg", cwd=papers)
    assert (code, said.partition("\n")[0]) == (2, "error[usage]: The tasks of 'paper' are not known before it runs.")
    assert flow("run", "paper", "Bees", "-s", "s", cwd=papers) == (0, "", f"paper · session s\n{PLAN}{STEPS}{WAITS}")
    code, shown, hint = flow("show", "paper", "-s", "s", cwd=papers)
    assert (code, hint) == (0, GOES_ON)
    assert shown.startswith("paper · 2 tasks · 1 successful · 1 running\n")
    assert shown.endswith("author asks: How long?\n")
    ended = "paper · session s\nauthor asks: How long?\n✓ write successful · short\ncomplete · 2 turns\n"
    assert flow("resume", "-s", "s", cwd=papers, stdin="short\n") == (0, "short\n", ended)
    code, text, _ = flow("show", "paper", "-s", "s", "-f", "mermaid", cwd=papers)
    assert (code, text.splitlines()[1]) == (0, 'title: "paper: 2 tasks · 2 successful · ended: complete"')
    assert flow("show", "paper", "-s", "s", "-f", "svg", cwd=papers)[1].startswith("<svg ")


def test_a_run_without_a_plan_says_so(papers: Path) -> None:
    """Also when a run before it had one."""
    assert flow("run", "paper", "Bees", "-s", "s", cwd=papers, stdin="short\n")[:2] == (0, "short\n")
    assert flow("run", "paper", "unsure", "-s", "s", cwd=papers)[2] == (f"paper · session s\nplanner asks: For whom?\n{WAITS}")
    assert flow("show", "paper", "-s", "s", cwd=papers) == (0, "paper · no plan yet\nplanner asks: For whom?\n", GOES_ON)
    code, _, said = flow("show", "paper", "-s", "s", "-f", "mermaid", cwd=papers)
    assert (code, said.partition("\n")[0]) == (2, "error[usage]: The last run of 'paper' has no plan, so no tasks.")
    assert flow("resume", "-s", "s", cwd=papers, stdin="me\nlong\n")[:2] == (0, "long\n")
    assert flow("run", "paper", "hopeless", "-s", "s", cwd=papers)[0] == 1
    code, shown, hint = flow("show", "paper", "-s", "s", cwd=papers)
    assert (code, shown.partition("\n")[0], hint) == (0, "paper · ended without a plan: failed", "")
    assert "no idea" in shown


def test_a_plan_below_another_flow_is_drawn_too(papers: Path) -> None:
    assert flow("run", "outer", "Bees", "-s", "s", cwd=papers, stdin="short\n")[:2] == (0, "short\n")
    for name, tasks in (("paper", "2 tasks · 2 successful"), ("outer", "1 task · 1 successful")):
        assert flow("show", name, "-s", "s", cwd=papers)[1].startswith(f"{name} · {tasks} · ended: complete\n")


def test_those_whom_a_message_asked_are_shown_and_answered(papers: Path) -> None:
    assert flow("show", "several", cwd=papers)[1].startswith("several · asks all agents that a message is for")
    code, _, complaint = flow("run", "several", "both", cwd=papers)
    assert (code, complaint.partition("\n")[0]) == (2, "error[usage]: The flow 'several' cannot be run by itself.")
    assert turnwise("chat", "-s", "s", cwd=papers, stdin="both\n").returncode == 0
    assert flow("show", "several", "-s", "s", cwd=papers)[1].startswith("several · 2 tasks · 1 successful · 1 running\n")
    assert flow("resume", "-s", "s", cwd=papers, stdin="these\n") == (
        0,
        "One.\n\nthese\n",
        "several · session s\ntwo asks: Which two?\n✓ two successful · these\ncomplete · 2 turns\n",
    )


def test_at_a_terminal_the_tasks_stand_below_once_there_is_a_plan(papers: Path, terminal: Terminal) -> None:
    child = terminal("flow", "run", "paper", "unsure", "--session", "s", cwd=papers)
    shows(child, "no plan yet", "For whom", "you> ")
    child.sendline("me")
    shows(child, "2 tasks", "running", "How long")
    child.sendline("short")
    shows(child, "complete", pexpect.EOF)
