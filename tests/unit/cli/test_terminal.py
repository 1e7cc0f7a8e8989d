"""What commands print."""

import io
import json
import sys

import pytest

from turnwise.cli import terminal
from turnwise.facts.errors import ConfigError


class Screen(io.StringIO):
    """A terminal of which nothing is known but that it is one."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def screen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def said(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, text: str, style: str = "bold") -> str:
    monkeypatch.setattr(sys, "stdout", stream)
    terminal.print_line(text, style)
    return stream.getvalue()


def test_colour_only_at_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, Screen(), "x") == "\x1b[1mx\x1b[0m\n"
    assert said(monkeypatch, io.StringIO(), "x") == "x\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert said(monkeypatch, Screen(), "x") == "x\n"
    assert terminal.prompt("you> ") == "you> "
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert said(monkeypatch, Screen(), "x") == "x\n"


def test_no_colour_in_a_pipe_whatever_the_environment_forces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert said(monkeypatch, io.StringIO(), "x") == "x\n"


def test_text_is_no_markup_and_no_emoji(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, io.StringIO(), "[red]x[/red] :smile: \x1b[31m", "") == "[red]x[/red] :smile: \n"


def test_long_lines_are_left_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, Screen(), "x " * 500, "") == "x " * 500 + "\n"


@pytest.mark.parametrize(
    ("columns", "at_a_terminal", "in_a_pipe"), [("77", 77, 77), ("", 80, None), ("wide", 80, None), ("0", None, None)]
)
def test_lines_are_as_wide_as_the_terminal_or_as_columns_says(
    monkeypatch: pytest.MonkeyPatch, columns: str, at_a_terminal: int, in_a_pipe: int | None
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys, "stdout", Screen())
    assert terminal.width() == at_a_terminal
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert terminal.width() == in_a_pipe


def test_an_error_is_one_line_and_its_fix_another(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show_error(ConfigError("t.yaml:3: Wrong\nhere.", fix="Make it [right]."))
    captured = capsys.readouterr()
    assert captured.err == "error[config]: t.yaml:3: Wrong here.\n  Make it [right].\n"
    assert captured.out == ""


def test_a_huge_error_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show_error(ConfigError("x" * 100_000))
    assert len(capsys.readouterr().err) < 1_100


def test_json_is_one_line_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_json({"a": "é\n\x9b"})
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"a": "é\n\x9b"}
    assert captured.out.count("\n") == 1
    assert captured.err == ""
