"""Fixtures of tests that run runners over real stores, which are closed at the end: a conftest.py imports them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from runner_play import runners, runners_in

from turnwise.runner import Runner
from turnwise.stores.sql import SqlSessionStore
from turnwise.testing.fakes import CountingIssuer

MakeRunner = Callable[..., Runner]


@pytest.fixture
def make_runner() -> Iterator[MakeRunner]:
    with runners(store=lambda: SqlSessionStore("sqlite://"), issuer=CountingIssuer) as make:
        yield make


@pytest.fixture
def process(tmp_path: Path) -> Iterator[MakeRunner]:
    """Makes a runner with a connection of its own to the one file, as another process has."""
    with runners_in(tmp_path) as make:
        yield make
