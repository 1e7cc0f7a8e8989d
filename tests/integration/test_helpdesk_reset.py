"""The help desk sets passwords anew: codes, counts, and nothing secret in the log."""

from pathlib import Path

from helpdesk_play import DANA, Desk, OpenDesk, speakers

from turnwise.facts.events import USER


async def _reset_to_the_code(desk: Desk) -> str:
    await desk.say("I forgot my password")
    result = await desk.say(DANA)
    assert "code" in result.text
    return desk.code()


def _wrong(code: str, by: int = 1) -> str:
    return f"{(int(code) + by) % 1_000_000:06d}"


async def test_three_wrong_codes_end_the_reset(opened: OpenDesk) -> None:
    """A42: the invocation waits after each of two wrong codes, and ends with the third; nothing is changed."""
    async with opened() as desk:
        code = await _reset_to_the_code(desk)
        first, second = await desk.say(_wrong(code)), await desk.say(_wrong(code, 2))
        assert (first.waiting, second.waiting) == (True, True)
        third = await desk.say(_wrong(code, 3))
        assert not third.waiting
        assert "That code is over" in third.text
        late = await desk.say(code)
        assert "Which e-mail address" in late.text
        assert desk.rows(f"SELECT must_change FROM accounts WHERE email = '{DANA}'") == [(0,)]


async def test_wrong_codes_are_counted_across_leaving_and_a_restart(opened: OpenDesk) -> None:
    """A42: another process goes on with the wait, and leaving gives no new tries."""
    async with opened() as desk:
        code = await _reset_to_the_code(desk)
        await desk.say(_wrong(code))
        aside = await desk.say("What are your opening hours in Boston?")
        assert speakers(aside) == ["stores"]
    async with opened() as desk:
        again = await desk.say(_wrong(code, 2))
        assert speakers(again) == ["password_reset"]
        assert "not the code I sent" in again.text
        assert desk.rows("SELECT wrong, state FROM resets") == [(2, "open")]
        right = await desk.say(f"the code is {code}")
        assert "That is right" in right.text
        assert desk.rows("SELECT count(*) FROM resets") == [(1,)], "run again from its start, it must not send a second code"


async def test_a_reset_that_is_given_up(opened: OpenDesk) -> None:
    async with opened() as desk:
        await _reset_to_the_code(desk)
        result = await desk.say("never mind")
        assert not result.waiting
        assert "stays as it was" in result.text


async def test_another_address_and_a_new_code(opened: OpenDesk) -> None:
    """An address without an account sounds the same as one that has one."""
    async with opened() as desk:
        await desk.say("I can't log in")
        nobody = await desk.say("nobody@example.com")
        dana = await desk.say(DANA)
        assert nobody.text.replace("nobody@", "dana@") == dana.text
        await desk.say("no mail, send it again please")
        assert desk.rows("SELECT count(*) FROM outbox") == [(2,)]
        result = await desk.say(desk.code())
        assert "That is right" in result.text


async def test_no_code_and_no_password_is_in_the_log(opened: OpenDesk, tmp_path: Path) -> None:
    """The log keeps what people say; secrets come by mail. The code that the user typed is the only one, and is used up."""
    async with opened() as desk:
        code = await _reset_to_the_code(desk)
        await desk.say(code)
        ((mail,),) = desk.rows("SELECT body FROM outbox ORDER BY id DESC LIMIT 1")
        password = str(mail).split()[3]
        events = await desk.runner.store.events(desk.runner.key("dana", "s"), hidden=True)
    assert [event.author for event in events if code in event.model_dump_json()] == [USER]
    assert not any(password in event.model_dump_json() for event in events)
