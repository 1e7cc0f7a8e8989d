import asyncio

from turnwise.facts.sessions import SessionKey
from turnwise.telemetry.about import About, about, answering, requested

KEY = SessionKey("shop", "ada", "s-1")


def test_nothing_is_known_outside() -> None:
    assert about() == About()
    assert about().sent_here, "what a program does by itself is its own"


def test_what_is_done_inside_is_known_and_forgotten_behind() -> None:
    with requested("r-1"):
        assert about() == About(request="r-1")
        with answering(KEY, "i-1"):
            assert about() == About("r-1", "shop", "s-1", "i-1")
        assert about() == About(request="r-1")
    assert about() == About()


def test_who_did_not_send_a_message_is_not_named_with_it() -> None:
    with requested("r-1"), answering(KEY, "i-1", sent_here=False):
        assert about() == About("", "shop", "s-1", "i-1", sent_here=False)


async def test_tasks_know_what_began_them() -> None:
    async def asks() -> About:
        return about()

    with requested("r-1"):
        inside = asyncio.create_task(asks())
    with requested("r-2"):
        other = asyncio.create_task(asks())
    assert [(await inside).request, (await other).request] == ["r-1", "r-2"]
