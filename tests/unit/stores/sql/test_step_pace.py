"""Long work goes in steps whose number of rows follows from what the last step took."""

from typing import Any, cast

from turnwise.stores.sql.maintenance import FIRST_ROWS, LEAST_ROWS, MOST_ROWS, STEP_SECONDS, StepPace

NO_CONNECTION = cast("Any", None)


def after(*seconds: float) -> int:
    pace = StepPace()
    for each in seconds:
        pace.adapt(each)
    return pace.rows


def test_a_step_in_time_keeps_its_rows() -> None:
    assert after() == after(STEP_SECONDS) == FIRST_ROWS


def test_a_long_step_is_followed_by_one_that_fits() -> None:
    assert after(4 * STEP_SECONDS) == FIRST_ROWS // 4
    assert after(1_000.0) == LEAST_ROWS


def test_short_steps_grow_little_by_little() -> None:
    assert after(0.0) == FIRST_ROWS * 3 // 2
    assert after(*[0.0] * 50) == MOST_ROWS


def test_steps_go_on_after_the_smallest_one() -> None:
    assert after(1_000.0, 0.0, 0.0) > LEAST_ROWS


def test_a_measured_step_gets_the_present_number_of_rows() -> None:
    pace = StepPace()
    assert pace.measured(lambda rows, _: rows, NO_CONNECTION) == FIRST_ROWS
    assert pace.measured(lambda rows, _: rows, NO_CONNECTION) > FIRST_ROWS
