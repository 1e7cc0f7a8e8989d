"""What a long command is busy with. (At a real terminal: tests/integration/cli/test_eval.py.)"""

import pytest

from turnwise.cli.progress_bars import progress_bar, work_bar


def test_nothing_is_shown_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """E3: logs and pipes stay clean."""
    with progress_bar("deciding", 3) as step, work_bar("preparing") as work:
        step()
        work("encoding", 1, 2)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
