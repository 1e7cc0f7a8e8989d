"""Several processes that get messages for one session at the same moment."""

from pathlib import Path

from survival_play.meetings import burst, same_message


async def test_twenty_messages_at_once_get_twenty_answers_in_order(url: str, tmp_path: Path) -> None:
    """A32, E7: in the order in which they were accepted, one after the other."""
    met = await burst(url, tmp_path, messages=20)
    assert met.problems == []
    assert [answer["end"] for answer in met.given] == ["completed"] * 20
    assert len(met.findings.ends) == 20


async def test_the_same_message_everywhere_is_one_answer(url: str, tmp_path: Path) -> None:
    """Decision 3, E7: the four callers get it all."""
    met = await same_message(url, tmp_path, rounds=3)
    assert met.problems == []
    assert len(met.findings.work) == 2 * 3, "Two steps for each message, done once."
