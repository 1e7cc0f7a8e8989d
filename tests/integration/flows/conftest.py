"""What the tests of flows share: runners over one file, closed at the end."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from runner_play import runners_in

from turnwise import Runner


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Callable[..., Runner]]:
    """Makes a runner with a connection of its own to the one file, as another process has."""
    with runners_in(tmp_path) as make:
        yield make
