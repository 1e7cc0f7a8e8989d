import pytest
from tool_play import at_work, called

from turnwise import AgentContext
from turnwise.facts.errors import ToolFailed
from turnwise.tools.built_in import ask_user


async def test_the_reply_is_the_result() -> None:
    """A42."""

    async def work(context: AgentContext) -> str:
        return f"You said {await called(ask_user, context, question='Which one?')}."

    runner = at_work(work)
    asked = await (await runner.start("hello", user="ada", session="s")).result()
    assert (asked.text, asked.waiting) == ("Which one?", True)
    answered = await (await runner.start("the red one", user="ada", session="s")).result()
    assert answered.text == "You said the red one."
    await runner.close()


async def test_how_calls_are_made() -> None:
    assert ask_user.spec.name == "ask_user"
    assert (ask_user.rules.recorded, ask_user.rules.last, ask_user.rules.private) == (False, True, False)
    with pytest.raises(ToolFailed, match="'question'"):
        await called(ask_user, question="")
