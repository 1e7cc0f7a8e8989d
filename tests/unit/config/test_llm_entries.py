"""LLM agents of a configuration file, built."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from config_play import line_only, module_in

from turnwise import MessageContext, Runner, SqlSessionStore
from turnwise.config.agent_builder import AgentBuilder, model_names
from turnwise.config.entries import PlacedAgent
from turnwise.config.settings import read_settings
from turnwise.facts.content import DataPart
from turnwise.facts.messages import OfferedTool
from turnwise.ports.agent import Agent
from turnwise.testing.models import ScriptedModel

CODE = '''
from dataclasses import dataclass

from turnwise.agents.llm import LlmAgent
from turnwise.testing.models import ScriptedModel, calls
from turnwise import agent

@dataclass
class Answer:
    eta: str

model = ScriptedModel()

def status(order: str) -> str:
    """Where an order is."""
    return f"{order} is here"

def twin(order: str) -> str: ...
twin.__name__ = "status"

def final_answer() -> str: ...

def told(context):
    return f"You work for {context.session.app}."

@agent(description="Knows refunds.")
def refunds(message):
    return f"refund of {message}"

made = LlmAgent("made", model=model)

class Holds:
    def __init__(self):
        from turnwise import AgentCard
        self.card, self.children, self.closed = AgentCard(name="holds"), (), False
    async def run(self, context):
        yield context.event("held")
    async def close(self):
        self.closed = True

holds = Holds()
'''
Build = Callable[[str], tuple[Agent | None, list[str]]]


@pytest.fixture
def module(tmp_path: Path) -> Iterator[str]:
    with module_in(tmp_path, CODE) as name:
        yield name


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> Build:
    monkeypatch.chdir(tmp_path)

    def building(text: str) -> tuple[Agent | None, list[str]]:
        (tmp_path / "t.yaml").write_text("app: x\n" + text.replace("M:", f"{module}:"))
        settings = read_settings(tmp_path / "t.yaml", {"KEY": "sk-very-secret"})
        roster = AgentBuilder(settings, {})
        root = roster.root()
        return root, [f"{error.code} {line_only(error)}".replace(module, "M") for error in settings.document.problems]

    return building


def built(build: Build, text: str) -> Agent:
    root, problems = build(text)
    assert problems == []
    assert root is not None
    return root


FULL = """
agents:
  - name: orders
    kind: llm
    description: Knows orders.
    model: {import: 'M:model'}
    instructions: |
      Be short.
      The customer is {user:name?}.
    turn_instructions: The basket is {basket?}.
    tools: ['M:status', {agent: refunds}, artifacts]
    output: M:Answer
    output_key: eta
    output_retries: 1
    settings: {temperature: 0.2}
    max_steps: 5
    history: {tokens: 4000}
    result_characters: 500
    summary_model: openai:gpt-5-nano
    names_next: true
    memory: {mode: both, tokens: 300, said_by: [user]}
    callers_tools: false
    patterns: ['\\border\\b', {regex: parcel, confidence: 0.9}]
    examples: ['Where is it?']
    skills: [{name: tracking}]
    tags: [shop]
    disallow_transfer_to_peers: true
    children: ['M:refunds']
"""


async def test_all_that_an_entry_says_reaches_the_model(build: Build, module: str) -> None:
    """A run of it, with what the model is sent: instructions, tools, settings, and an answer of the type."""
    root = built(build, FULL)
    assert (root.card.kind, root.card.tags, root.card.disallow_transfer_to_peers) == ("llm", ("shop",), True)
    assert [pattern.confidence for pattern in root.card.patterns] == [0.8, 0.9]
    assert [child.card.name for child in root.children] == ["refunds"]
    model: ScriptedModel = sys.modules[module].model
    calls = sys.modules[module].calls
    model.__init__(calls("ask_refunds", {"message": "A-1"}), calls("final_answer", {"eta": "soon"}))  # type: ignore[misc]
    runner = Runner(root, store=SqlSessionStore("sqlite://"), policy="adk")
    offers = MessageContext(tools=(OfferedTool(name="show_map"),))
    result = await (await runner.start("where is my order?", user="ada", session="s", context=offers)).result()
    state = (await runner.sessions.get(runner.key("ada", "s"))).state
    await runner.close()
    assert [p.data for e in result.events if e.content for p in e.content.parts if isinstance(p, DataPart)] == [{"eta": "soon"}]
    assert state["eta"] == {"eta": "soon"}
    request = model.requests[0]
    assert request.instructions.startswith("Be short.\nThe customer is .")
    assert request.messages[-1].text.endswith('<said note="now">The basket is .</said>')
    assert request.settings == {"temperature": 0.2}
    tools = {tool.name: tool.description for tool in request.tools}
    assert tools["ask_refunds"] == "Asks the agent 'refunds' and returns its answer. Knows refunds."
    assert {"status", "list_artifacts", "transfer_to_agent", "final_answer", "recall", "remember"} <= tools.keys()
    assert "show_map" not in tools
    assert model.requests[1].messages[-1].tool_results[0].result == "refund of A-1"


async def test_instructions_may_be_a_function(build: Build, module: str) -> None:
    root = built(build, "agents: [{name: a, kind: llm, model: {import: 'M:model'}, instructions: {import: 'M:told'}}]\n")
    model: ScriptedModel = sys.modules[module].model
    model.__init__("Hello.")  # type: ignore[misc]
    runner = Runner(root, store=SqlSessionStore("sqlite://"), app="shop")
    await (await runner.start("hi", user="ada", session="s")).result()
    await runner.close()
    assert model.requests[0].instructions == "You work for shop."


def test_models_are_known_by_name_and_never_by_key(build: Build) -> None:
    text = (
        "agents:\n  - {name: a, kind: llm, model: 'openai:gpt-5',\n     children: [{name: b, kind: llm,"
        " model: {model: tiny, url: 'http://127.0.0.1:1/v1', key: \"${KEY}\"}}, {run: 'M:made', tags: [t]}, 'M:refunds']}\n"
    )
    root = built(build, text)
    assert model_names(root) == {"a": "openai:gpt-5", "b": "127.0.0.1:tiny", "made": "scripted:model"}


def test_an_agent_of_code_may_still_say_that_it_is_llm(build: Build) -> None:
    """For rules that go by the kind: its function is what runs."""
    root = built(build, "agents: [{run: 'M:refunds', kind: llm}]\n")
    assert isinstance(root, PlacedAgent)
    assert (root.card.kind, model_names(root)) == ("llm", {})


async def test_an_agent_that_holds_something_gives_it_up_at_its_place(build: Build, module: str) -> None:
    runner = Runner(built(build, "agents: [{run: 'M:holds', tags: [t]}]\n"), store=SqlSessionStore("sqlite://"))
    await runner.close()
    assert sys.modules[module].holds.closed


LLM = "agents:\n  - name: a\n    kind: llm\n    model: openai:gpt-5\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("agents:\n  - {name: a, kind: llm}\n", "config.agent t.yaml:3: An agent of kind 'llm' needs 'model'."),
        ("agents:\n  - {kind: llm, model: x}\n", "config.agent t.yaml:3: An agent of kind 'llm' needs 'name'."),
        (LLM + "    run: M:refunds\n", "config.agent t.yaml:6: An agent of kind 'llm' has no key 'run'. It belongs to agents"),
        (LLM + "    instruction: x\n", "config.agent t.yaml:6: An agent of kind 'llm' has no key 'instruction'. Did you mean"),
        (
            "agents:\n  - run: M:refunds\n    tools: []\n",
            "config.agent t.yaml:4: An agent of kind 'function' has no key 'tools'. It",
        ),
        (LLM.replace("openai", "opanai"), "config t.yaml:5: There is no model 'opanai:gpt-5'."),
        (LLM + "    max_steps: 0\n", "config.agent t.yaml:6: 'max_steps' should be greater than or equal to 1."),
        (
            LLM + "    history:\n      token: 3\n",
            "config.agent t.yaml:7: There is no key 'history.token' here. Did you mean 'tokens'?",
        ),
        (LLM + "    settings: [a]\n", "config.agent t.yaml:6: 'settings' should be keys and values, but is a list."),
        (LLM + "    instructions: [a]\n", "config.agent t.yaml:6: 'instructions' should be text, but is a list."),
        (LLM + "    instructions: {import: 'M:model'}\n", "config t.yaml:6: M:model is no function of the context."),
        (LLM + "    output: M:Anser\n", "config.import_path t.yaml:6: The module 'M' has no 'Anser'. Did you mean 'Answer'?"),
        (LLM + "    output: M:model\n", "config.agent t.yaml:6: Agent 'a': output_type"),
        (LLM + "    output: {a: b}\n", "config.agent t.yaml:6: 'output' should be text, but is keys and values."),
        (LLM + "    memory: all\n", "config.agent t.yaml:6: 'memory' should be"),
        (LLM + "    memory: [tool]\n", "config.agent t.yaml:6: 'memory' should be a mode or keys and values; this is a list."),
        (
            LLM + "    memory: {mode: tool, token: 5}\n",
            "config.agent t.yaml:6: The use of the memory has no key 'token'. Did you",
        ),
        (LLM + "    memory: {mode: tool, said_by: [admin]}\n", "config.agent t.yaml:6: 'said_by[0]' should be 'user',"),
        (LLM + "    summary_model: gpt\n", "config t.yaml:6: There is no model 'gpt'."),
        (LLM + "    tools: ['M:status', 'M:twin']\n", "config.agent t.yaml:6: Agent 'a' has two tools named 'status'."),
        (LLM + "    tools: ['M:final_answer']\n", "config.agent t.yaml:6: Agent 'a': the tool name 'final_answer' is reserved"),
        (
            LLM + "    tools:\n      - agent: refund\n    children: ['M:refunds']\n",
            "config.agent t.yaml:7: There is no agent 'refund' to be a tool. Did you mean 'refunds'?",
        ),
    ],
)
def test_a_mistake_names_its_line(build: Build, text: str, problem: str) -> None:
    _, problems = build(text)
    assert [found for found in problems if found.startswith(problem)] != [], problems
    assert len(problems) == 1


def test_every_mistake_is_told_at_once(build: Build) -> None:
    """Those of the entry, of its card, of its tools, and those of another agent."""
    _, problems = build(
        LLM + "    max_steps: no\n    tools: ['M:nothing', x]\n    output: M:nope\n    time_limit: -1\n"
        "  - {name: b, kind: llm, model: 3, parent: nobody}\n"
    )
    assert [problem.split(":")[1].split()[0] for problem in problems] == ["6", "7", "7", "8", "9", "10", "10"]
