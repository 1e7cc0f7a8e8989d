"""A person's leave for a tool call, at a terminal."""

from pathlib import Path

import pexpect
import pytest
from cli_play import Terminal, turnwise, written

AGENTS = """
from turnwise.agents.llm import LlmAgent
from turnwise.testing.models import FunctionModel, calls
from turnwise.tools.function import tool

@tool(confirm=True)
def pay(amount: int) -> str:
    with open("paid", "a") as file:
        file.write(f"{amount} ")
    return "paid"

def thinks(request):
    last = request.messages[-1]
    if "hi there" in last.text:
        return "Hello."
    return f"It says: {last.tool_results[0].result}" if last.tool_results else calls("pay", {"amount": 3})

teller = LlmAgent("teller", model=FunctionModel(thinks), tools=[pay])
"""


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    return written(tmp_path, "app: bank\nroot: cli_bank:teller\n", cli_bank=AGENTS)


def test_the_prompt_asks_until_it_is_answered(bank: Path, terminal: Terminal) -> None:
    """A42: the question outlives the program, and a message in between."""
    child = terminal("chat", "--session", "here", cwd=bank)
    child.expect("you> ")
    child.sendline("pay please")
    child.expect(r"pay\(amount=3\)")
    child.expect("May I call pay with amount = 3")
    child.expect("y/n> ")
    child.sendline("hi there")
    child.expect("Hello.")
    child.expect("y/n> ")
    child.sendeof()
    child.expect(pexpect.EOF)
    assert not (bank / "paid").exists()

    again = terminal("chat", "--session", "here", cwd=bank)
    again.expect("May I call pay with amount = 3")
    again.expect("y, or n")
    again.expect("y/n> ")
    again.sendline("y")
    again.expect("It says: paid")
    again.expect("you> ")
    again.sendeof()
    again.expect(pexpect.EOF)
    assert (bank / "paid").read_text() == "3 "
    shown = turnwise("sessions", "show", "here", cwd=bank).stdout
    assert '[calls pay {"amount": 3}]' in shown
    assert "models in all: function:model · 3 calls" in shown
