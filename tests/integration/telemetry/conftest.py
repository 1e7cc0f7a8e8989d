"""What the tests of telemetry share: a runner over a real store, closed at the end."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from runner_play import runners, runners_in

from turnwise import Runner, SqlSessionStore
from turnwise.testing.fakes import CountingIssuer

MakeRunner = Callable[..., Runner]


@pytest.fixture
def make_runner() -> Iterator[MakeRunner]:
    with runners(store=lambda: SqlSessionStore("sqlite://"), issuer=CountingIssuer) as make:
        yield make


@pytest.fixture
def process(tmp_path: Path) -> Iterator[MakeRunner]:
    with runners_in(tmp_path) as make:
        yield make
