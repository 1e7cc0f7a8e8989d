"""Conformance suite for `SessionStore`: test cases that a test calls.

    @pytest.mark.parametrize("case", session_store_suite.CASES, ids=lambda case: case.__name__)
    def test_my_store(case, tmp_path):
        asyncio.run(case(MyStore(tmp_path / "sessions")))

Each case uses a new app, so all cases may share one store; the test closes it. A case fails with AssertionError. `SHARED_CASES`
take a function that opens several handles on the same data, like several processes, and close them. They do not apply to a
store that exists in one process only.
"""

from turnwise.testing.session_store_cases import (
    decisions,
    histories,
    inboxes,
    jobs,
    lives,
    logs,
    overviews,
    recoveries,
    repeats,
    revisions,
    rewinds,
    sharing,
    standings,
    writers,
)
from turnwise.testing.session_store_cases.making import Case, SharedCase

CASES: tuple[Case, ...] = (
    *lives.CASES,
    *logs.CASES,
    *writers.CASES,
    *inboxes.CASES,
    *decisions.CASES,
    *overviews.CASES,
    *jobs.CASES,
    *rewinds.CASES,
    *recoveries.CASES,
    *repeats.CASES,
    *revisions.CASES,
    *standings.CASES,
    *histories.CASES,
)

SHARED_CASES: tuple[SharedCase, ...] = (*sharing.CASES, *revisions.SHARED_CASES)

__all__ = ["CASES", "SHARED_CASES", "Case", "SharedCase"]
