import asyncio

from turnwise.facts.sessions import SessionKey
from turnwise.telemetry.logs import LogContext, log_context, message_context, request_context

KEY = SessionKey("shop", "ada", "s-1")


def test_nothing_is_known_outside() -> None:
    assert log_context() == LogContext()
    assert log_context().is_local, "what a program does by itself is its own"


def test_what_is_done_inside_is_known_and_forgotten_behind() -> None:
    with request_context("r-1"):
        assert log_context() == LogContext(request="r-1")
        with message_context(KEY, "i-1"):
            assert log_context() == LogContext("r-1", "shop", "s-1", "i-1")
        assert log_context() == LogContext(request="r-1")
    assert log_context() == LogContext()


def test_who_did_not_send_a_message_is_not_named_with_it() -> None:
    with request_context("r-1"), message_context(KEY, "i-1", is_local=False):
        assert log_context() == LogContext("", "shop", "s-1", "i-1", is_local=False)


async def test_tasks_know_what_began_them() -> None:
    async def asks() -> LogContext:
        return log_context()

    with request_context("r-1"):
        inside = asyncio.create_task(asks())
    with request_context("r-2"):
        other = asyncio.create_task(asks())
    assert [(await inside).request, (await other).request] == ["r-1", "r-2"]
