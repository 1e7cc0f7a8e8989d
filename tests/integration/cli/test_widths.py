"""What commands print keeps to the width that COLUMNS says, or that the terminal has, and stays whole in a pipe."""

import re
from pathlib import Path

import pytest
from cli_play import Terminal, turnwise, written
from rich.cells import cell_len

LONG = "an_agent_whose_name_was_made_of_the_names_of_departments"
AGENTS = f'''
from turnwise import agent

@agent(description="Greets, and answers what no other agent does, as it was told to do by its makers.", examples=["Hello"])
def desk():
    return "I can tell you a lot about orders, about returns, and about when the shop is open 📦 on Saturdays."

@agent(name="注文と配送の問い合わせ窓口", description="注文と配送についての質問に答える担当者です。荷物の追跡もします。", patterns=["注文", "parcel"])
def orders():
    return "注文と配送についての質問に答える担当者です。荷物の追跡もします。注文と配送についての質問に答える担当者です。"

@agent(name="{LONG}", description="Deals with whatever has to be sent back 📦.", patterns=["return"], examples=["I return it"])
def returns():
    return "Send it back."
'''  # noqa: E501
CONFIGURATION = "app: test\nroot: wide_agents:desk\nagents: ['wide_agents:orders', 'wide_agents:returns']\n"
COMMANDS = (
    ("check",),
    ("select", "Where is my parcel? I return it, for it does not fit, and I want my money back", "--explain"),
    ("lint",),
    ("eval", "cases.jsonl"),
    ("sessions", "list"),
    ("sessions", "show", "s"),
    ("sessions", "explain", "s"),
    ("keys", "list"),
)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = written(tmp_path_factory.mktemp("wide"), CONFIGURATION, wide_agents=AGENTS)
    cases = f'{{"text": "I return it", "agent": "{LONG}"}}\n{{"text": "Hello my parcel", "agent": "desk"}}\n'
    (folder / "cases.jsonl").write_text(cases)
    assert turnwise("chat", "-s", "s", cwd=folder, stdin="hello\nmy parcel\nI return it\n").returncode == 0
    create = ("keys", "create", "The laptop of Ann", "--user", "ann", "--scope", "messages:write", "--scope", "sessions:read")
    assert turnwise(*create, cwd=folder).returncode == 0
    return folder


def too_wide(said: str, width: int) -> list[str]:
    """The lines that are wider, but for those of one word that has no break."""
    found = [line for line in said.splitlines() if cell_len(line) > width]
    return [line for line in found if len(re.sub(r"^[\s\d.→]+", "", line).split()) > 1 or cell_len(line) > len(line)]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_lines_keep_to_the_width(wide: Path, command: tuple[str, ...]) -> None:
    whole = turnwise(*command, cwd=wide)
    assert whole.returncode == 0, whole.stderr
    for width in (60, 80, 100, 160):
        said = turnwise(*command, cwd=wide, environment={"COLUMNS": str(width)})
        assert said.returncode == 0, said.stderr
        assert too_wide(said.stdout, width) == []
        for name in (LONG, "strong_intent_match"):
            assert (name in said.stdout) == (name in whole.stdout)


def test_at_a_terminal_no_word_is_broken(wide: Path, terminal: Terminal) -> None:
    child = terminal("select", "I return it", "--explain", cwd=wide, width=70)
    said = child.read().replace("\r\n", "\n")
    assert too_wide(plain(said), 70) == []
    assert "(strong_intent_match)" in said


def plain(said: str) -> str:
    from rich.text import Text

    return Text.from_ansi(said).plain
