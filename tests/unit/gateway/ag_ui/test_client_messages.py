"""A conversation, told to a client that comes back."""

from typing import Any

from turnwise.gateway.ag_ui.messages import restored_messages


def message(id_: str, content: str = "", **more: Any) -> dict[str, Any]:
    return {"id": id_, "role": "assistant", "content": content, **more}


LOG = [message("u", "hi", role="user"), message("1", "Hello."), message("v", "more?", role="user"), message("2", "No.")]


def test_a_client_with_nothing_gets_all() -> None:
    assert restored_messages([], LOG) == LOG


def test_what_a_client_has_is_put_right_and_gone_on_with() -> None:
    mine = message("mine", "hi", role="user")
    assert restored_messages([mine, message("1", "Hel")], LOG) == [mine, *LOG[1:]]
    assert restored_messages([mine, *LOG[1:]], LOG) == [mine, *LOG[1:]]


def test_what_shares_nothing_with_the_log_stays() -> None:
    """Which of it is new here, nobody can say."""
    mine = [message("mine", "hi", role="user"), message("other", "Hello.")]
    assert restored_messages(mine, LOG) == mine
