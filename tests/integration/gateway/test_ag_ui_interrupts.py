"""What waits for the person, as AG-UI's interrupts, with its real client."""

from typing import Any

from ag_ui_play import INTERRUPTS, desk, fronting, needs_client

from turnwise import LlmAgent
from turnwise.testing.models import ScriptedModel, calls
from turnwise.tools.function import tool

pytestmark = needs_client


async def test_a_question_is_an_interrupt_and_the_next_run_answers_it() -> None:
    async with fronting(desk, INTERRUPTS) as front:
        asked, answered, after = await front.play("my order", {"resume": "1002"}, "hello")
        (interrupt,) = asked.interrupts
        assert interrupt["reason"] == "input_required"
        assert interrupt["message"] == "Which number does it have?"
        assert interrupt["responseSchema"] == {"type": "string"}
        assert interrupt["metadata"]["turnwise"]["agent"] == "orders"
        (finished,) = asked.of("SUBAGENT_FINISHED")
        assert finished["outcome"] == {"type": "suspended", "interruptIds": [interrupt["id"]]}
        assert finished["subagentRunId"] == interrupt["subagentRunId"]
        assert answered.of("SUBAGENT_STARTED")[0]["subagentRunId"] == interrupt["subagentRunId"]
        assert answered.texts[-1] == "Order 1002 is on its way."
        assert answered.interrupts == []
        assert after.texts[-1] == "You said: hello."
        assert ("user", "1002") in await front.log()


async def test_an_answer_that_is_shown_as_a_message_too_is_one_answer() -> None:
    async with fronting(desk, INTERRUPTS) as front:
        _, answered = await front.play("my order", {"say": "1002", "resume": {"text": "1002"}})
        assert answered.texts[-1] == "Order 1002 is on its way."
        assert [text for author, text in await front.log() if author == "user"] == ["my order", "1002"]


async def test_a_question_that_nobody_answers() -> None:
    async with fronting(desk, INTERRUPTS) as front:
        _, given_up, after = await front.play("my order", {"resume": "cancel"}, "order 1003")
        assert (given_up.failed, given_up.interrupts) == (None, [])
        assert after.texts[-1] == "Order 1003 is on its way."
        # A message of its own may come with it.
        _, both = await front.play("my order", {"resume": "cancel", "say": "order 1004"}, thread="u")
        assert both.texts[-1] == "Order 1004 is on its way."


async def test_a_question_in_a_conversation_of_five_turns() -> None:
    """A question is an answer like any other: a client that knows no interrupts just goes on."""
    async with fronting(desk) as front:
        ran = await front.play("hello", "my order", "1002", "hello again", "order 1003")
        assert [each.failed for each in ran] == [None] * 5
        assert [each.interrupts for each in ran] == [[]] * 5
        assert [each.of("RUN_FINISHED")[0]["outcome"] for each in ran] == [{"type": "success"}] * 5
        assert [each.texts[-1] for each in ran] == [
            "You said: hello.",
            "Which number does it have?",
            "Order 1002 is on its way.",
            "You said: hello again.",
            "Order 1003 is on its way.",
        ]
        assert [text for author, text in await front.log() if author == "user"][2] == "1002"


async def test_a_request_chooses_how_questions_reach_it() -> None:
    for config, wanted, as_interrupt in ((None, "interrupt", True), (INTERRUPTS, "message", False)):
        options = {"options": {"forwardedProps": {"questions": wanted}}}
        async with fronting(desk, config) as front:
            (asked,) = await front.play({"say": "my order", **options})
            assert bool(asked.interrupts) == as_interrupt
            assert asked.texts[-1] == "Which number does it have?"


def payer(*more: Any) -> tuple[LlmAgent, list[int]]:
    """An agent that pays 5 and 7, each with a person's leave."""
    paid: list[int] = []

    @tool(confirm=True)
    async def pay(amount: int) -> str:
        paid.append(amount)
        return f"paid {amount}"

    both = [calls("pay", {"amount": 5}), calls("pay", {"amount": 7})]
    return LlmAgent("payer", model=ScriptedModel(both, "Done.", *more), tools=[pay]), paid


async def test_leave_is_asked_for_by_interrupts() -> None:
    """A42. What the tool gave is told for the call of the run before."""
    root, paid = payer()
    async with fronting(root) as front:
        asked, answered = await front.play("pay", {"resume": {"approved": True}})
        assert [each["reason"] for each in asked.interrupts] == ["tool_call", "tool_call"]
        told = [event["toolCallId"] for event in asked.of("TOOL_CALL_START")]
        assert [each["toolCallId"] for each in asked.interrupts] == told
        assert asked.interrupts[0]["metadata"]["turnwise"]["arguments"] == {"amount": 5}
        assert asked.interrupts[0]["message"] == "May I call pay with amount = 5?"
        assert [event["toolCallId"] for event in answered.of("TOOL_CALL_RESULT")] == told
        assert answered.of("TOOL_CALL_START") == []
        assert answered.texts[-1] == "Done."
        assert sorted(paid) == [5, 7]


async def test_one_leave_is_given_and_one_is_not() -> None:
    root, paid = payer()
    async with fronting(root) as front:
        (asked,) = await front.play("pay")
        first, second = (each["id"] for each in asked.interrupts)
        resume = [
            {"interruptId": first, "status": "resolved", "payload": {"approved": False, "reason": "Too much."}},
            {"interruptId": second, "status": "resolved", "payload": True},
            {"interruptId": "nobody's", "status": "resolved", "payload": 1},
        ]
        ran = await front.one({"messages": asked.messages, "options": {"resume": resume}})
        assert ran.texts[-1] == "Done."
        assert paid == [7]
        assert ran.custom("ignored") == [{"reason": "Nobody waits for it.", "ids": ["nobody's"]}]


async def test_what_still_waits_is_an_interrupt_again() -> None:
    root, paid = payer()
    async with fronting(root) as front:
        (asked,) = await front.play("pay")
        first, second = (each["id"] for each in asked.interrupts)
        resume = [{"interruptId": first, "status": "resolved", "payload": True}]
        half = await front.one({"messages": asked.messages, "options": {"resume": resume}})
        assert [each["id"] for each in half.interrupts] == [second]
        assert 7 not in paid
        resume = [{"interruptId": second, "status": "cancelled"}]
        rest = await front.one({"messages": half.messages, "options": {"resume": resume}})
        assert rest.texts[-1] == "Done."
        assert paid == [5]
