"""Lines from a pipe."""

import io

import pytest

from turnwise.cli.line_input import read_line


def test_a_pipe_gives_its_lines_and_then_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("one\n\nbad \udcff"))
    assert [read_line("you> ", interactive=False) for _ in range(4)] == ["one", "", "bad \ufffd", None]
    assert capsys.readouterr().out == ""


def test_a_process_without_standard_input_has_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert read_line("", interactive=False) is None


def test_at_a_terminal_the_end_is_the_end_and_ctrl_c_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for left in (EOFError, KeyboardInterrupt):

        def leaves(prompt: str, left: type[BaseException] = left) -> str:
            raise left

        monkeypatch.setattr("builtins.input", leaves)
        if left is EOFError:
            assert read_line("you> ", interactive=True) is None
        else:
            with pytest.raises(KeyboardInterrupt):
                read_line("you> ", interactive=True)
