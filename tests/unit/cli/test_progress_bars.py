"""A progress bar, when somebody looks at it. (At a real terminal: tests/integration/test_cli.py.)"""

import pytest

from turnwise.cli.progress_bars import Progress


def test_nothing_is_shown_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(3) as progress:
        progress.advance()
        progress.advance(failed=True)
        assert progress.console is None
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
