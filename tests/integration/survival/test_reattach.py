"""Readers that come and go."""

from pathlib import Path

from survival_play.meetings import cut_reader

CUTS = 50


async def test_a_reader_that_is_cut_sees_every_event_once(url: str, tmp_path: Path) -> None:
    """Decision 5, A22, E7: in the process that answers and in another, by the number of the last event it saw."""
    met = await cut_reader(url, tmp_path, CUTS)
    assert met.problems == []
    assert [saw["cuts"] for saw in met.given] == [CUTS, CUTS]
    assert met.given[0]["partials"] > 0


async def test_a_reader_goes_on_with_the_next_attempt(url: str, tmp_path: Path) -> None:
    """Decisions 5 and 6: its process answers on in the place of the killed one, and the reader sees how."""
    met = await cut_reader(url, tmp_path, CUTS, kill_holder=True)
    assert met.problems == []
    assert len(met.findings.kills) == 1
