"""What callers may write to the state of a session."""

from typing import Any

import pytest

from turnwise.facts.callers import Caller
from turnwise.facts.errors import Forbidden, MessageError, MessageTooLarge, RequestTooLarge
from turnwise.facts.limits import Limits
from turnwise.gateway.services.session_admission import check_state

LIMITS = Limits(state_bytes=100, message_bytes=250)
ANN, ADMIN = Caller(id="u", user="ann"), Caller(id="a", role="admin", user="root")


def test_a_plain_state_is_taken() -> None:
    check_state(ANN, {"n": 1, "user:language": "en", "gone": None, "deep": {"a": [1, "ä"]}}, LIMITS)


def test_only_admins_write_what_all_users_share() -> None:
    with pytest.raises(Forbidden, match="app:"):
        check_state(ANN, {"app:motd": "x"}, LIMITS)
    with pytest.raises(Forbidden):
        check_state(Caller(id="o", role="operator", user="olga"), {"app:motd": "x"}, LIMITS)
    check_state(ADMIN, {"app:motd": "x"}, LIMITS)


@pytest.mark.parametrize(
    "state",
    [
        {"": 1},
        {"ok": 1, "a\0": 1},
        {"\ud800": 1},
        {"x" * 201: 1},
        {"n": float("nan")},
        {"n": [float("inf")]},
        {"n": "\ud800"},
        {"temp:x": 1},
    ],
)
def test_what_cannot_be_kept_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises(MessageError, match="the state"):
        check_state(ANN, state, LIMITS)


def test_a_value_and_the_whole_have_a_limit() -> None:
    check_state(ANN, {"a": "x" * 98}, LIMITS)
    with pytest.raises(MessageTooLarge, match="'a'"):
        check_state(ANN, {"a": "x" * 99}, LIMITS)
    deep: Any = 1
    for _ in range(1000):
        deep = [deep]
    with pytest.raises(MessageTooLarge, match="nested"):
        check_state(ANN, {"a": deep}, LIMITS)
    with pytest.raises(RequestTooLarge) as raised:
        check_state(ANN, dict.fromkeys("abc", "x" * 90), LIMITS)
    assert raised.value.where == ("body", "state")
