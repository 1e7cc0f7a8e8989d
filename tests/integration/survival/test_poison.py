"""A message that kills whoever answers it."""

from pathlib import Path

from survival_play.meetings import poison


async def test_a_message_that_kills_its_process_is_given_up(url: str, tmp_path: Path) -> None:
    """Decision 6: after so many attempts it ends `limit:attempts`; other sessions, and the next message, are answered."""
    met = await poison(url, tmp_path, ttl=1.0, attempts=3)
    assert met.problems == []
    assert [answer["end"] for answer in met.given] == ["completed"] * 4
