"""The tools of an LLM agent as a configuration file names them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from config_play import line_only, module_in

from turnwise.config.document import read_document
from turnwise.config.part_entries import AgentReference, build_tools
from turnwise.config.part_section import ToolItem
from turnwise.config.validation import Section, validated
from turnwise.tools.built_in import ArtifactTools
from turnwise.tools.function import FunctionTool
from turnwise.tools.mcp_toolset import McpServer

TOOLS = '''
from turnwise import agent
from turnwise.tools.built_in import ArtifactTools
from turnwise.tools.function import tool

def status(order: str) -> str:
    """Where an order is."""
    return "here"

@tool(confirm=True, name="pay")
def refund(order: str) -> str: ...

@agent
def billing(message): ...

files = ArtifactTools(saving=False)

def eats(*everything): ...

class Thing: ...

number = 3
'''


class Holder(Section):
    tools: tuple[ToolItem, ...] = ()


Read = Callable[[str], tuple[list[Any], list[str]]]


@pytest.fixture
def read(tmp_path: Path) -> Iterator[Read]:
    with module_in(tmp_path, TOOLS) as name:

        def reading(text: str) -> tuple[list[Any], list[str]]:
            (tmp_path / "t.yaml").write_text(f"tools: {text}\n".replace("M:", f"{name}:"))
            document = read_document(tmp_path / "t.yaml", {"TOKEN": "t0ken-t0ken"})
            valid = validated(document, Holder)
            assert valid is not None
            holder, document = valid
            tools = build_tools(document, ("tools",), holder.tools)
            return tools, [line_only(error).replace(f"{tmp_path}/", "").replace(name, "M") for error in document.problems]

        yield reading


def test_functions_tools_toolsets_and_what_is_shipped(read: Read) -> None:
    tools, problems = read("['M:status', 'M:refund', 'M:files', artifacts, ask_user, {agent: billing, description: d}]")
    assert problems == []
    status, refund, files, artifacts, asking, asked = tools
    assert isinstance(status, FunctionTool)
    assert (status.spec.name, status.spec.description) == ("status", "Where an order is.")
    assert (refund.spec.name, refund.rules.confirm) == ("pay", True)
    assert all(isinstance(each, ArtifactTools) for each in (files, artifacts))
    assert asking.spec.name == "ask_user"
    assert asked == AgentReference("billing", "d", ("tools", 5, "agent"))


def test_mcp_servers(read: Read) -> None:
    tools, problems = read(
        "\n  - mcp: {command: [python, -m, server], env: {TOKEN: '${TOKEN}'}}\n    name: files\n    only: [read]\n"
        "    confirm: [write]\n    prefix: f_\n    seconds: 5\n"
        "  - {mcp: {url: 'http://127.0.0.1:1/mcp', headers: {Authorization: '${TOKEN}'}}, confirm: true}"
    )
    assert problems == []
    files, remote = tools
    assert isinstance(files, McpServer)
    assert isinstance(remote, McpServer)
    assert (files.name, remote.name) == ("files", "127.0.0.1")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("shop:x", "t.yaml:1: 'tools' should be a list, but is text."),
        ("[3]", "t.yaml:1: This is no tool: it is a number. Write module:attribute, artifacts, ask_user,"),
        ("[{mpc: {}}]", "t.yaml:1: This is no tool: it has the key 'mpc'. Did you mean 'mcp'?"),
        ("[{}]", "t.yaml:1: This is no tool: it is keys and values."),
        ("[artefacts]", "t.yaml:1: There is no tool 'artefacts'. Did you mean 'artifacts'? Or write an import path"),
        ("\n  - 'M:status'\n  - 'M:stattus'", "t.yaml:3: The module 'M' has no 'stattus'. Did you mean 'status'?"),
        ("['M:Thing']", "t.yaml:1: M:Thing is a class, not a tool."),
        ("['M:number']", "t.yaml:1: M:number is of the type int, not a tool."),
        ("['M:billing']", "t.yaml:1: M:billing is an agent. As a tool it is written `{agent: name}`"),
        ("['M:eats']", "t.yaml:1: Tool 'eats': a model cannot fill its parameter '*everything'."),
        ("[{agent: 3}]", "t.yaml:1: 'agent' should be text, but is a number."),
        ("[{agent: a, only: [b]}]", "t.yaml:1: There is no key 'only' here."),
        ("\n  - mcp:\n      command: ls", "t.yaml:3: 'mcp.command' should be a list, but is text."),
        ("\n  - mcp:\n      urll: a", "t.yaml:3: There is no key 'mcp.urll' here. Did you mean 'url'?"),
        ("[{mcp: {}}]", "t.yaml:1: An MCP server has either a command or a URL."),
        ("[{mcp: {command: [a], url: 'http://h'}}]", "t.yaml:1: An MCP server has either a command or a URL."),
        ("[{mcp: {url: 'http://h', cwd: x}}]", "t.yaml:1: An MCP server with a URL has no args, env or cwd."),
        ("[{mcp: {command: [a]}, confirm: 3}]", "t.yaml:1: 'confirm': write true, false, or a list of tools"),
        ("[{mcp: {command: [a]}, prefx: a}]", "t.yaml:1: There is no key 'prefx' here. Did you mean 'prefix'?"),
    ],
)
def test_a_mistake_names_its_line(read: Read, text: str, problem: str) -> None:
    _, (found,) = read(text)
    assert found.startswith(problem)


def test_all_mistakes_are_told_at_once(read: Read) -> None:
    _, problems = read("[x, 'M:status', {agent: 3}, 'M:Thing']")
    assert len(problems) == 3


def test_a_token_is_in_no_message(read: Read) -> None:
    _, (problem,) = read("[{mcp: {url: '${TOKEN}', headers: {A: '${TOKEN}'}}}]")
    assert "t0ken" not in problem
