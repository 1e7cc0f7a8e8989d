"""Which revision of a session a request is for."""

from datetime import UTC, datetime
from typing import Any

import pytest

from turnwise.facts.errors import PreconditionFailed, SessionMissing, StaleWriter
from turnwise.facts.sessions import Session, SessionKey
from turnwise.gateway.services.session_admission import Expected, as_precondition

NOW = datetime.now(UTC)
SESSION = Session(app="a", user="u", id="s", revision=5, created_at=NOW, updated_at=NOW)


@pytest.mark.parametrize("expected", [Expected(), Expected(frozenset({5})), Expected(frozenset({4, 5}))])
def test_a_revision_that_is_expected(expected: Expected) -> None:
    assert expected.check(SESSION) == (5 if expected.revisions else None)
    with pytest.raises(PreconditionFailed, match="does not exist"):
        expected.check(None)


@pytest.mark.parametrize(
    ("expected", "named"),
    [
        (Expected(frozenset()), "expects no revision of a session, the session has revision 5"),
        (Expected(frozenset({4})), "expects revision 4, the session has revision 5"),
        (Expected(frozenset({9, 4})), "expects revision 4, 9, the session has revision 5"),
        (Expected(frozenset(range(10, 20))), "expects revision 10, 11, 12, 13, 14, …, the session has revision 5"),
    ],
)
def test_a_revision_that_is_not(expected: Expected, named: str) -> None:
    with pytest.raises(PreconditionFailed, match=named) as refused:
        expected.check(SESSION)
    assert refused.value.where == ("header", "If-Match")


@pytest.mark.parametrize("error", [StaleWriter("x"), SessionMissing("x")])
@pytest.mark.parametrize(
    ("now", "named"),
    [
        (SESSION, "expects revision 4, the session has revision 5"),
        (SESSION.replace(revision=4), "still has revision 4, but another write came first"),
        (None, "does not exist"),
    ],
)
async def test_a_writer_that_came_too_late_learns_the_revision_of_now(
    error: Exception, now: Session | None, named: str
) -> None:
    class Store:
        async def open(self, key: SessionKey) -> Session | None:
            assert key == SESSION.key
            return now

    store: Any = Store()
    with pytest.raises(PreconditionFailed, match=named):
        async with as_precondition(Expected(frozenset({4})), store, SESSION.key):
            raise error
    with pytest.raises(PreconditionFailed):
        async with as_precondition(Expected(), store, SESSION.key):
            raise error
    with pytest.raises(type(error), match="x"):
        async with as_precondition(None, store, SESSION.key):
            raise error
