"""A person's leave before a tool runs: the turn waits, also for days and in other processes (A42)."""

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from llm_play import answering, calls_of, last_results, results_of, told, waiting_call
from pydantic import AfterValidator, Field, JsonValue
from runner_play import Crash, ask, key, kill, reason, texts

from turnwise import Runner
from turnwise.agents.llm import LlmAgent
from turnwise.ports.tool import ToolCall
from turnwise.testing.fakes import FunctionGuardrail
from turnwise.testing.models import ScriptedModel, calls
from turnwise.tools.built_in import ask_user
from turnwise.tools.function import tool

Process = Callable[..., Runner]


class Bank:
    """Pays, and remembers what it paid."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        @tool(confirm=True)
        async def pay(amount: int, to: str = "ada") -> str:
            self.paid.append(amount)
            return f"paid {amount}"

        self.pay = pay


def clerk(*replies: Any, tools: Any) -> LlmAgent:
    return LlmAgent("clerk", model=ScriptedModel(*replies, "Done."), tools=tools)


async def test_the_question_is_readable_and_a_call_for_programs(process: Process) -> None:
    bank = Bank()
    result = await ask(process(clerk(calls("pay", {"amount": 30, "to": "Bob"}), tools=[bank.pay])), "pay")
    assert (reason(result), result.text) == ("waiting", 'May I call pay with amount = 30, to = "Bob"?')
    call, asked = calls_of(result.events)
    assert (asked.tool, asked.private, len(asked.call_id) <= 40) == ("confirm", True, True)
    assert asked.arguments == {"tool": "pay", "arguments": {"amount": 30, "to": "Bob"}, "call": call.call_id}
    assert bank.paid == []
    waits = (await process(clerk(tools=[])).sessions.get(key())).head.waiting()
    assert [(wait.id, wait.kind) for _, _, wait in waits] == [(asked.call_id, "tool_result")]


@pytest.mark.parametrize("yes", [{"approved": True}, True, "yes", " Approved. ", {"approved": "true"}])
async def test_what_is_agreed_to_is_done_once_in_another_process(process: Process, yes: Any) -> None:
    """A42: the model is not asked for the call again, nor is the person."""
    bank = Bank()
    model = ScriptedModel(calls("pay", {"amount": 3}), "Done.")
    worker = LlmAgent("clerk", model=model, tools=[bank.pay])
    first = await ask(process(worker), "pay")
    done = await ask(process(worker), answering(waiting_call(first), yes))
    assert (done.text, reason(done), bank.paid) == ("Done.", "completed", [3])
    assert (len(model.requests), [part.result for part in last_results(model.requests[1])]) == (2, ["paid 3"])
    assert await texts(process(worker)) == ["pay", "May I call pay with amount = 3?", "Done."]


@pytest.mark.parametrize(
    ("no", "words"),
    [
        ({"approved": False, "reason": "too much"}, ": too much"),
        (False, "."),
        ("no", "."),
        ("not today", ": not today"),
        (None, "."),
        (1, "."),
        ({"amount": 3}, "."),
        (["yes"], "."),
    ],
)
async def test_what_is_not_plainly_agreed_to_is_not_done(process: Process, no: Any, words: str) -> None:
    bank = Bank()
    worker = clerk(calls("pay", {"amount": 3}), tools=[bank.pay])
    first = await ask(process(worker), "pay")
    done = await ask(process(worker), answering(waiting_call(first), no))
    refused = "It was not called, because the person who was asked did not agree"
    assert (told(done), bank.paid, done.text) == ([refused + words], [], "Done.")
    assert [part.failed for part in results_of(done.events)] == [True]


async def test_an_answer_that_failed_is_no_leave(process: Process) -> None:
    bank = Bank()
    worker = clerk(calls("pay", {"amount": 3}), tools=[bank.pay])
    first = await ask(process(worker), "pay")
    await ask(process(worker), answering(waiting_call(first), True, failed=True))
    assert bank.paid == []


async def test_a_function_decides_whether_to_ask_and_is_asked_once(process: Process) -> None:
    """A call that was judged stays as it was judged, whatever the function says later."""
    judged: list[int] = []
    paid: list[int] = []

    async def is_much(call: ToolCall) -> bool:
        judged.append(call.arguments["amount"])  # type: ignore[arg-type]
        return len(judged) % 2 == 1

    @tool(confirm=is_much)
    async def pay(amount: int) -> str:
        paid.append(amount)
        return f"paid {amount}"

    worker = clerk([calls("pay", {"amount": 500}), calls("pay", {"amount": 3})], tools=[pay])
    first = await ask(process(worker), "pay")
    assert (reason(first), judged, paid) == ("waiting", [500, 3], [3])
    done = await ask(process(worker), answering(waiting_call(first), True))
    assert (told(first), told(done), judged, paid) == (["paid 3"], ["paid 500"], [500, 3], [3, 500])


async def test_a_rule_that_fails_asks(process: Process) -> None:
    def breaks(call: ToolCall) -> bool:
        raise ValueError("broken")

    worker = clerk(calls("pay"), tools=[tool(name="pay", confirm=breaks)(lambda: "paid")])
    assert reason(await ask(process(worker), "pay")) == "waiting"


async def test_nobody_is_asked_about_arguments_that_do_not_fit(process: Process) -> None:
    bank = Bank()
    result = await ask(process(clerk(calls("pay", {"sum": 3}), tools=[bank.pay])), "pay")
    assert (reason(result), bank.paid) == ("completed", [])
    assert told(result)[0].startswith("The arguments do not fit: 'amount' is missing; 'sum' is not a parameter.")


async def test_nobody_is_asked_about_a_call_that_its_tool_will_not_take(process: Process) -> None:
    """A42: types and limits count, and whatever else the tool checks; the model is told as of any call that does not fit."""
    ran: list[int] = []

    def even(amount: int) -> int:
        if amount and amount % 2:
            raise ValueError("it has to be even")
        return 12 // amount * amount

    Amount = Annotated[int, Field(ge=0), AfterValidator(even)]

    def is_much(call: ToolCall) -> bool:
        amount: Any = call.arguments["amount"]
        return bool(amount > 1)

    @tool(confirm=is_much)
    async def pay(amount: Amount) -> str:
        ran.append(amount)
        return "paid"

    wrong: list[dict[str, JsonValue]] = [{"amount": "3"}, {"amount": -2}, {"amount": 3}, {"amount": 0}]
    asked = [calls("pay", arguments) for arguments in wrong]
    refused = await ask(process(clerk(asked, tools=[pay])), "pay")
    assert (reason(refused), ran) == ("completed", [])
    assert ["do not fit" in str(text) for text in told(refused)] == [True, True, True, False]
    assert told(refused)[3].startswith("ZeroDivisionError: ")
    assert all(part.failed for part in results_of(refused.events))


async def test_of_a_tool_that_checks_nothing_before_only_the_names_are_checked(process: Process) -> None:
    bank = Bank()

    class Plain:
        spec, rules = bank.pay.spec, bank.pay.rules

        async def run(self, call: ToolCall) -> str:
            return "paid"

    runner = process(clerk([calls("pay", {"sum": 3})], calls("pay", {"amount": "3"}), tools=[Plain()]))
    result = await ask(runner, "pay")
    assert told(result)[0].startswith("The arguments do not fit: 'amount' is missing")
    assert reason(result) == "waiting"


async def test_a_call_that_was_agreed_to_and_made_is_not_checked_again(process: Process) -> None:
    """A42: what is on record counts, also when the tool of today would not take the call."""
    crash = Crash()

    @tool(confirm=True)
    async def pay(amount: int) -> str:
        return f"paid {amount}"

    @tool(name="pay", confirm=True)
    async def pays_text(amount: str) -> str:
        return "never"

    @tool(last=True)
    async def ship() -> str:
        await crash.here()
        return "shipped"

    model = ScriptedModel([calls("pay", {"amount": 3}), calls("ship")], "Done.")
    first = await ask(process(LlmAgent("clerk", model=model, tools=[pay, ship])), "go")
    yes = answering(waiting_call(first), True)
    await kill(process, LlmAgent("clerk", model=model, tools=[pay, ship]), crash, yes)
    alive = process(LlmAgent("clerk", model=model, tools=[pays_text, ship]))
    await alive.recover()
    assert [part.result for part in results_of(await alive.store.events(key()))] == ["paid 3", "shipped"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
async def test_all_that_waits_in_a_step_waits_together(process: Process, order: tuple[int, ...]) -> None:
    """A42: two questions and a late result, answered in any order, beside a call that was made at once."""
    bank = Bank()
    ran: list[str] = []

    @tool(later=True)
    async def prints() -> str:
        ran.append("prints")
        return "begun"

    async def plain() -> str:
        ran.append("plain")
        return "fine"

    asked = [calls("pay", {"amount": 1}), calls("prints"), calls("pay", {"amount": 2}), calls("plain")]
    model = ScriptedModel(asked, "Done.")
    worker = LlmAgent("clerk", model=model, tools=[bank.pay, prints, plain])
    first = await ask(process(worker), "go")
    made = calls_of(first.events)
    answers = [(made[4].call_id, True), (made[1].call_id, "printed"), (made[5].call_id, "no")]
    assert len((await process(worker).sessions.get(key())).head.waiting()) == 3
    for index in order[:2]:
        assert reason(await ask(process(worker), answering(*answers[index]))) == "waiting"
    done = await ask(process(worker), answering(*answers[order[2]]))
    assert (done.text, bank.paid, ran) == ("Done.", [1], ["plain", "prints"]) or ran == ["prints", "plain"]
    results = last_results(model.requests[1])
    assert [(part.tool, part.failed) for part in results] == [
        ("pay", False),
        ("prints", False),
        ("pay", True),
        ("plain", False),
    ]
    assert results[1].result == "printed"


async def test_a_tool_may_need_leave_and_give_its_result_later(process: Process) -> None:
    begun: list[str] = []

    @tool(confirm=True, later=True)
    async def prints() -> str:
        begun.append("begun")
        return "begun"

    model = ScriptedModel(calls("prints"), "Done.")
    worker = LlmAgent("clerk", model=model, tools=[prints])
    first = await ask(process(worker), "go")
    assert begun == []
    second = await ask(process(worker), answering(waiting_call(first), True))
    assert (reason(second), begun) == ("waiting", ["begun"])
    done = await ask(process(worker), answering(waiting_call(first, "prints"), "printed"))
    assert (done.text, begun) == ("Done.", ["begun"])
    assert [part.result for part in last_results(model.requests[1])] == ["printed"]


async def test_what_was_agreed_to_and_done_before_a_crash_is_not_done_again(process: Process) -> None:
    """Decision 6: between two payments that were agreed to."""
    bank, crash = Bank(), Crash()

    @tool(confirm=True, last=True)
    async def ship() -> str:
        await crash.here()
        return "shipped"

    worker = clerk([calls("pay", {"amount": 1}), calls("ship")], tools=[bank.pay, ship])
    first = await ask(process(worker), "go")
    pay, ships = [call.call_id for call in calls_of(first.events) if call.tool == "confirm"]
    await ask(process(worker), answering(pay, True))
    assert bank.paid == []
    await kill(process, worker, crash, answering(ships, True))
    alive = process(worker)
    await alive.recover()
    assert bank.paid == [1]
    assert (await texts(alive))[-1] == "Done."


async def test_a_question_to_the_user_waits_beside_one_for_leave(process: Process) -> None:
    """A42: the question comes when all else of the step is done."""
    bank = Bank()
    model = ScriptedModel([calls("ask_user", {"question": "Which account?"}), calls("pay", {"amount": 1})], "Done.")
    worker = LlmAgent("clerk", model=model, tools=[bank.pay, ask_user])
    first = await ask(process(worker), "go")
    assert first.text == "May I call pay with amount = 1?"
    second = await ask(process(worker), answering(waiting_call(first), True))
    assert (reason(second), second.text) == ("waiting", "Which account?")
    done = await ask(process(worker), "the blue one")
    assert (told(second)[-1:], told(done), bank.paid) == (["paid 1"], ["the blue one"], [1])


async def test_a_plain_message_meanwhile_leaves_the_question_open(process: Process) -> None:
    """A42: the model sees that the result is still to come, and the answer counts later."""
    bank = Bank()
    model = ScriptedModel(calls("pay", {"amount": 1}), "Please decide first.", "Done.")
    worker = LlmAgent("clerk", model=model, tools=[bank.pay])
    first = await ask(process(worker), "pay")
    aside = await ask(process(worker), "how is the weather?")
    assert (aside.text, reason(aside)) == ("Please decide first.", "completed")
    assert aside.invocation_id != first.invocation_id
    done = await ask(process(worker), answering(waiting_call(first), True))
    assert (done.text, bank.paid) == ("Done.", [1])
    seen = [[part.result for part in message.tool_results] for message in model.requests[1].messages]
    assert [results for results in seen if results] == [["The result is still to come."]]


async def test_a_question_that_a_guardrail_stops_is_not_waited_for(process: Process) -> None:
    from turnwise.ports.guardrail import GuardrailVerdict

    bank = Bank()
    blocks = FunctionGuardrail(
        "quiet", lambda place, text: GuardrailVerdict("block", reason="no") if place == "answer" and "May I" in text else None
    )
    result = await ask(process(clerk(calls("pay", {"amount": 1}), tools=[bank.pay]), guardrails=[blocks]), "pay")
    assert reason(result) == "completed"
    assert told(result) == ["It was not called: the question whether it may was blocked by quiet."]
    assert bank.paid == []


async def test_a_waiting_call_that_is_cancelled_leaves_a_log_that_goes_on(process: Process) -> None:
    """A23."""
    bank = Bank()
    first = await ask(process(clerk(calls("pay", {"amount": 1}), tools=[bank.pay])), "pay")
    runner = process(clerk(tools=[bank.pay]))
    await runner.sessions.cancel(key(), first.invocation_id)
    model = ScriptedModel("Hello.")
    result = await ask(process(LlmAgent("clerk", model=model, tools=[bank.pay])), "hi")
    assert result.text == "Hello."
    (call,) = [part for message in model.requests[0].messages for part in message.tool_calls]
    (told_,) = [part for message in model.requests[0].messages for part in message.tool_results]
    assert (call.call_id, told_.failed) == (told_.call_id, True)
