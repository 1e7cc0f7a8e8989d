"""What every `SessionStore` must do, as functions that a test calls.

    @pytest.mark.parametrize("case", session_store_suite.CASES, ids=lambda case: case.__name__)
    def test_my_store(case, tmp_path):
        asyncio.run(case(MyStore(tmp_path / "sessions")))

Each case makes an app of its own, so one store may serve all of them; closing the store is the test's business. A case
fails with AssertionError. `SHARED_CASES` take a function that opens handles on one and the same place, as several
processes have them, and close what they open; a store that lives in one process only is not for them.
"""

from turnwise.testing.session_store_cases import (
    inboxes,
    jobs,
    lives,
    logs,
    recoveries,
    repeats,
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
    *jobs.CASES,
    *rewinds.CASES,
    *recoveries.CASES,
    *repeats.CASES,
    *standings.CASES,
)

SHARED_CASES: tuple[SharedCase, ...] = sharing.CASES

__all__ = ["CASES", "SHARED_CASES", "Case", "SharedCase"]
