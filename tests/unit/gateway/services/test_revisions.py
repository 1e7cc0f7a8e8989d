"""Which revision of a session a request is for."""

from datetime import UTC, datetime

import pytest

from turnwise.facts.errors import PreconditionFailed, StaleWriter
from turnwise.facts.sessions import Session
from turnwise.gateway.services.session_scope import Expected, as_precondition

NOW = datetime.now(UTC)
SESSION = Session(app="a", user="u", id="s", revision=5, created_at=NOW, updated_at=NOW)


@pytest.mark.parametrize("expected", [Expected(), Expected(frozenset({5})), Expected(frozenset({4, 5}))])
def test_a_revision_that_is_expected(expected: Expected) -> None:
    assert expected.check(SESSION) == (5 if expected.revisions else None)
    with pytest.raises(PreconditionFailed, match="does not exist"):
        expected.check(None)


@pytest.mark.parametrize("expected", [Expected(frozenset()), Expected(frozenset({4}))])
def test_a_revision_that_is_not(expected: Expected) -> None:
    with pytest.raises(PreconditionFailed, match="revision 5") as refused:
        expected.check(SESSION)
    assert refused.value.where == ("header", "If-Match")


def test_a_writer_that_came_too_late_failed_its_precondition_if_it_has_one() -> None:
    with pytest.raises(PreconditionFailed), as_precondition(Expected()):
        raise StaleWriter("x")
    with pytest.raises(StaleWriter), as_precondition(None):
        raise StaleWriter("x")
