"""A process that stands still for longer than its sessions stay claimed, and wakes up again."""

from pathlib import Path

from survival_play.meetings import frozen_holder


async def test_what_a_frozen_holder_says_late_is_refused(url: str, tmp_path: Path) -> None:
    """Decision 3, A33, E7: another process answers; its caller gets that answer, and its own never shows."""
    met = await frozen_holder(url, tmp_path, ttl=1.0)
    assert met.problems == []
