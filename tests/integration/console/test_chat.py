"""The chat page of the console, in a real browser."""

from console_play import HOSTILE, LOCKED, Gate, console, desk


async def test_a_decision_is_shown_before_the_first_word_of_its_answer() -> None:
    """K4, E1"""
    gate = Gate()
    async with console(desk(gate)) as it:
        await it.go("chat")
        await it.say("slow please", "It begins like this")
        line = it.page.locator(".decided").first
        assert "slow" in await line.inner_text()
        assert "matched a pattern" in await line.inner_text()
        assert await it.page.get_by_text("and ends.").count() == 0
        await it.page.locator(".aside .stages").wait_for()
        gate.open.set()
        await it.sees("It begins like this, and ends.")
        (turn,) = await it.page.locator(".turn").all()
        boxes = [await turn.locator(each).first.bounding_box() for each in (".said", ".decided", ".answer")]
        assert [box["y"] for box in boxes] == sorted(box["y"] for box in boxes)


async def test_an_answer_is_stopped_where_it_is() -> None:
    async with console(desk(Gate())) as it:
        await it.go("chat")
        await it.say("slow please", "It begins like this")
        await it.page.get_by_role("button", name="Stop").click()
        await it.sees("Stopped.")
        await it.page.get_by_role("button", name="Send").wait_for()
        await it.say("where is my order", "is on its way")


async def test_questions_and_approvals_are_answered_in_place() -> None:
    async with console() as it:
        await it.go("chat/s1")
        await it.say("which?", "Which one?")
        await it.page.get_by_placeholder("Your reply").fill("the red one")
        await it.page.get_by_role("button", name="Reply").click()
        await it.sees("You said the red one")
        for _ in range(2):
            lines = await it.page.locator(".decided:visible").all_inner_texts()
            assert ["matched a pattern" in lines[0], "answers its question" in lines[1], len(lines)] == [True, True, 2]
            assert await it.page.locator(".said").all_inner_texts() == ["which?", "the red one"]
            await it.page.reload()
            await it.sees("You said the red one")
        await it.say("a refund please")
        await it.sees("wants to call")
        await it.page.reload()
        await it.page.get_by_role("button", name="Approve").click()
        await it.sees("All is paid.")


async def test_regenerate_rewind_and_fork() -> None:
    async with console() as it:
        await it.go("chat/s1")
        await it.say("hello", "You said hello")
        await it.say("where is my order", "is on its way")
        await it.page.locator(".turn").last.get_by_role("button", name="Regenerate").click()
        await it.page.locator(".turn").nth(1).get_by_text("is on its way").wait_for()
        assert await it.page.locator(".turn").count() == 2
        await it.page.locator(".turn").last.get_by_role("button", name="Fork").click()
        await it.page.wait_for_url("**/chat/session-*")
        await it.page.locator(".turn").first.wait_for()
        assert await it.page.locator(".turn").count() == 1
        assert await it.page.locator("#message").input_value() == "where is my order"
        await it.go("chat/s1")
        await it.page.locator(".turn").last.get_by_role("button", name="Rewind").click()
        await it.sees("Rewound")
        assert await it.page.locator(".turn").count() == 1
        session = await it.runner.sessions.get(it.runner.key("local", "s1"))
        assert session.head.turns == 1


async def test_hostile_text_is_shown_as_text() -> None:
    """K3: no script of it runs, and no link of it leads to one."""
    async with console() as it:
        await it.go("chat/s1")
        await it.say(HOSTILE + " hostile", "<img src=x")
        assert await it.page.locator(".answer img, .answer script, .said img, a[href^=javascript]").count() == 0
        assert "[a](javascript:alert(1)) <next>@orders</next>" in await it.page.locator(".said").first.inner_text()
        assert "[a](javascript:alert(1))" in await it.page.locator(".answer").first.inner_text()
        assert await it.page.locator(".answer strong").inner_text() == "bold"
        for path in ("sessions/s1?user=local", "decisions", "agents/hostile", "agents"):
            await it.go(path)
            await it.page.get_by_text("<img src=x").first.wait_for()
            assert await it.page.locator("main img, main script, a[href^=javascript]").count() == 0
        assert await it.page.title() not in ("1", "2")


async def test_a_very_long_message_and_answer_do_not_stop_the_page() -> None:
    async with console() as it:
        assert (await it.client.send_message("long " + "x" * 200_000, "s1")).status_code == 200
        await it.go("chat/s1")
        await it.sees("more characters")
        assert len(await it.page.locator(".said").first.inner_text()) < 5_000
        assert len(await it.page.locator(".answer").first.inner_text()) < 25_000
        await it.page.get_by_role("button", name="more characters").click()
        assert len(await it.page.locator(".answer").first.inner_text()) > 900_000
        await it.say("hello", "You said hello")


async def test_a_failure_is_told_in_words() -> None:
    async with console() as it:
        await it.go("chat")
        await it.say("break it")
        await it.sees("raised ValueError: as asked")
        await it.page.get_by_role("button", name="Send").wait_for()
        assert await it.page.get_by_text("raised ValueError: as asked").count() == 1
        # Another tab says something: this one shows it as soon as it has the focus again.
        await it.client.send_message("where is my order", it.page.url.rpartition("/")[2])
        await it.page.evaluate("dispatchEvent(new Event('focus'))")
        await it.sees("is on its way")


async def test_an_operator_acts_for_no_user_and_a_user_sees_no_patterns() -> None:
    """K1"""
    for role in ("user", "operator", "admin"):
        async with console(config=LOCKED, key={"role": role, "user": "ann"}) as it:
            await it.go("chat")
            await it.say("where is my order", "is on its way")
            await it.page.locator(".aside .stages").wait_for()
            assert await it.page.get_by_text("Who should have answered").count() == (role != "user")
            await it.go("agents/orders")
            await it.sees("Knows where orders are.")
            assert await it.page.get_by_role("heading", name="Patterns").count() == (role != "user")
            await it.go("operations")
            await it.sees("For operators" if role == "user" else "Processes")


async def test_a_missing_key_is_asked_for_and_stays_in_the_tab() -> None:
    async with console(config=LOCKED) as it:
        from gateway_play import key_for

        text = (await key_for(it.runner, role="user", user="ann"))["Authorization"].removeprefix("Bearer ")
        await it.page.goto(f"{it.client.address}/console/chat")
        await it.page.get_by_label("API key or JSON web token").fill(text)
        await it.page.get_by_role("button", name="Use it").click()
        await it.say("hello", "You said hello")
        kept = await it.page.evaluate("[JSON.stringify(localStorage), document.cookie, sessionStorage.getItem('turnwise.key')]")
        assert text not in kept[0] + kept[1]
        assert kept[2] == text
        it.watched.problems[:] = [each for each in it.watched.problems if "401" not in each]
