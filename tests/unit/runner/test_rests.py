"""Which errors count as outages, and how processes agree on a rest."""

from datetime import UTC, datetime

import pytest

from turnwise.facts.errors import AgentFailed, AgentTimeout, ModelRefused, ModelUnavailable, StoreUnavailable
from turnwise.facts.selections import Exclusion, Selection
from turnwise.ports.rests import Rest
from turnwise.runner.rests import AgentRests, is_outage, with_ends


class Reply:
    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


class StatusError(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__("the service said no")
        self.response = Reply(status_code)


class ConnectError(Exception):
    """As HTTP libraries name it."""


def caused(cause: BaseException) -> AgentFailed:
    error = AgentFailed("Agent 'x' raised.")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "outage"),
    [
        (AgentTimeout("Too long."), True),
        (ModelUnavailable("Overloaded."), True),
        (caused(ConnectionRefusedError()), True),
        (caused(TimeoutError()), True),
        (caused(StatusError(503)), True),
        (caused(ConnectError()), True),
        (caused(StatusError(404)), False),
        (caused(ValueError("its own mistake")), False),
        (caused(FileNotFoundError("its own file")), False),
        (ModelRefused("A wrong key."), False),
    ],
)
def test_what_counts(error: BaseException, outage: bool) -> None:
    """C20"""
    assert is_outage(error) is outage


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


async def test_switched_off_and_without_a_store(caplog: pytest.LogCaptureFixture) -> None:
    """C20: problems of the store do not fail answers."""
    problem, clock = AgentTimeout("Too long."), Clock()
    off = AgentRests(object(), "app", clock, seconds=0)
    alone = AgentRests(object(), "app", clock)
    for user in ("ada", "bob", "eve"):
        await off.failed("x", user, problem)
        await alone.failed("x", user, problem)
        await alone.failed("y", user, ValueError())
    assert off.resting() == {}
    assert set(alone.resting()) == {"x"}

    class Away:
        @property
        def rests(self) -> "Away":
            return self

        async def all(self, app: str) -> list[Rest]:
            raise StoreUnavailable("The database cannot be reached.")

        async def replace(self, app: str, rest: Rest) -> Rest | None:
            raise StoreUnavailable("The database cannot be reached.")

    away = AgentRests(Away(), "app", clock)
    await away.failed("x", "ada", problem)
    await away.refresh()
    assert "could not be stored" in caplog.text


def test_a_decision_says_until_when() -> None:
    """C20"""
    until = datetime(2030, 1, 1, 12, 30, tzinfo=UTC)
    excluded = (Exclusion(agent="x", rule="resting"), Exclusion(agent="y", rule="disabled", detail="it is disabled"))
    selection = Selection(agent="z", method="default", confidence=1.0, excluded=excluded)
    told = with_ends(selection, {"x": Rest(agent="x", until=until)})
    assert [each.detail for each in told.excluded] == [
        "resting until 2030-01-01T12:30:00+00:00, because its surroundings failed",
        "it is disabled",
    ]
    assert with_ends(selection, {}) is selection
