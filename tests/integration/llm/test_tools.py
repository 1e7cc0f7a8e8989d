"""Tool calls: side by side, with limits, once, and always with a result that the model can react to (decisions 6 and 7)."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from llm_play import answering, calls_of, last_results, noted, results_of, told, waiting_call
from runner_play import Crash, ask, kill, reason, texts

from turnwise import AgentContext, Content, Limits, RunConfig, Runner, agent
from turnwise.agents.llm import LlmAgent
from turnwise.facts.errors import ToolFailed
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict
from turnwise.ports.tool import Tool
from turnwise.testing.models import ScriptedModel, calls
from turnwise.tools.built_in import AgentTool
from turnwise.tools.function import FunctionTool, tool

Process = Callable[..., Runner]


def clerk(*replies: Any, tools: Sequence[Any], **options: Any) -> LlmAgent:
    return LlmAgent("clerk", model=ScriptedModel(*replies, "Done."), tools=tools, **options)


async def test_calls_are_made_side_by_side_and_told_in_their_order(process: Process) -> None:
    """The second is done before the first."""
    second_done = asyncio.Event()

    async def first() -> str:
        await second_done.wait()
        return "one"

    async def second() -> str:
        second_done.set()
        return "two"

    result = await ask(process(clerk([calls("first"), calls("second")], tools=[first, second])), "go")
    assert (told(result), result.text) == (["one", "two"], "Done.")
    assert len([event for event in result.events if event.content and event.content.tool_results]) == 1


async def test_a_tool_gets_the_turn_and_its_call(process: Process) -> None:
    from turnwise.ports.tool import ToolCall

    async def look(question: str, context: AgentContext, call: ToolCall) -> dict[str, Any]:
        context.state["asked"] = question
        return {"agent": context.card.name, "id": call.id}

    runner = process(clerk(calls("look", {"question": "why?"}), tools=[look]))
    result = await ask(runner, "go")
    (call,) = calls_of(result.events)
    assert told(result) == [{"agent": "clerk", "id": call.call_id}]
    assert (await runner.sessions.get(runner.key("ada", "s"))).state == {"asked": "why?"}


async def test_a_tool_that_takes_too_long_is_told_so(process: Process) -> None:
    """limits.tool_seconds, or its own."""

    async def slow() -> None:
        await asyncio.Event().wait()

    own = FunctionTool(slow, name="own_limit", rules=tool(seconds=0.02)(slow).rules)
    config = RunConfig(limits=Limits(tool_seconds=0.01))
    result = await ask(process(clerk([calls("slow"), calls("own_limit")], tools=[slow, own])), "go", config=config)
    assert told(result) == ["slow took longer than 0.01 s.", "own_limit took longer than 0.02 s."]
    assert (all(r.failed for r in results_of(result.events)), result.text) == (True, "Done.")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ToolFailed("There is no such order.", fix="Ask for its number."), "There is no such order. Ask for its number."),
        (ValueError("x" * 1_000), "ValueError: " + "x" * 500),
        (KeyError("order"), "KeyError: 'order'"),
        (TimeoutError("the other side"), "TimeoutError: the other side"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt("mine"), "KeyboardInterrupt: mine"),
        (GeneratorExit("mine"), "GeneratorExit: mine"),
        (asyncio.CancelledError("mine"), "CancelledError: mine"),
        (Unspeakable(), "Unspeakable: it cannot say what went wrong"),
        (ValueError("\ud800"), "ValueError: \\ud800"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_tool_that_fails_is_a_result(process: Process, error: BaseException, words: str) -> None:
    """Decision 7: with the error's type and words, never a traceback; beside one that works."""

    async def breaks() -> None:
        raise error

    async def works() -> str:
        return "fine"

    result = await ask(process(clerk([calls("breaks"), calls("works")], tools=[breaks, works])), "go")
    assert (told(result), result.text) == ([words, "fine"], "Done.")
    assert [r.failed for r in results_of(result.events)] == [True, False]


async def test_an_unknown_tool_is_told_with_those_that_there_are(process: Process) -> None:
    async def works() -> str:
        return "fine"

    result = await ask(process(clerk(calls("work"), calls("works"), tools=[works])), "go")
    assert told(result) == ["There is no tool 'work'. Your tools: works.", "fine"]


async def test_arguments_that_are_wrong_are_told_with_what_is_right(process: Process) -> None:
    """No JSON, no object, or not what the function takes."""

    async def book(city: str, nights: int = 1) -> str:
        return f"{city} {nights}"

    wrong: list[Any] = [calls("book", '{"city": "Ro'), calls("book", {"town": "Rome"}), calls("book", {"city": 1})]
    result = await ask(process(clerk(*wrong, calls("book", {"city": "Rome"}), tools=[book])), "go")
    first, second, third, right = told(result)
    assert first == 'It was not called: its arguments have to be one JSON object, and are: {"city": "Ro'
    assert "'city' is missing" in second
    assert "Parameters: city (required), nights." in second
    assert "'city'" in third
    assert right == "Rome 1"


async def test_what_is_too_large_is_cut_with_a_mark(process: Process) -> None:
    async def much() -> str:
        return "x" * 500

    async def many() -> list[int]:
        return list(range(500))

    result = await ask(process(clerk([calls("much"), calls("many")], tools=[much, many], result_characters=100)), "go")
    much_told, many_told = told(result)
    assert much_told == "x" * 100 + "… [cut: this is the beginning of 500 characters]"
    assert many_told.startswith("[0, 1, 2,")
    assert "… [cut: this is the beginning of 2,390 characters]" in many_told


async def test_what_cannot_be_stored_is_no_trouble(process: Process) -> None:
    """Half a character, bytes, numbers that are none."""

    async def half() -> str:
        return "a\ud800b"

    async def raw() -> bytes:
        return b"x"

    class Odd:
        spec = FunctionTool(half, name="odd").spec
        rules = FunctionTool(half).rules

        async def run(self, call: Any) -> Any:
            return float("nan")

    result = await ask(process(clerk([calls("half"), calls("raw"), calls("odd")], tools=[half, raw, Odd()])), "go")
    assert told(result)[0] == "a?b"
    assert "bytes" in told(result)[1]
    assert told(result)[2].startswith("ValueError: ")


async def test_tools_that_come_last_wait_for_the_others_and_for_each_other(process: Process) -> None:
    order: list[str] = []

    def noting(name: str, pauses: int, **rules: Any) -> Tool:
        async def note() -> None:
            for _ in range(pauses):
                await asyncio.sleep(0)
            order.append(name)

        return tool(name=name, **rules)(note)

    tools = [noting("z", 3, last=True), noting("y", 0, last=True), noting("a", 5), noting("b", 0)]
    result = await ask(process(clerk([calls("z"), calls("y"), calls("a"), calls("b")], tools=tools)), "go")
    assert order == ["b", "a", "z", "y"]
    assert [part.tool for part in results_of(result.events)] == ["z", "y", "a", "b"]


async def test_what_was_called_before_a_crash_is_not_called_again(process: Process) -> None:
    """Decision 6: one call done, one not, in the same step; what is not recorded runs again."""
    crash, ran = Crash(), list[str]()
    done = asyncio.Event()

    async def pays() -> str:
        ran.append("pays")
        done.set()
        return "paid"

    async def ships() -> str:
        await done.wait()
        ran.append("ships")
        await crash.here()
        return "shipped"

    looks = noted(ran, "looks", "seen", recorded=False)
    worker = clerk([calls("pays"), calls("looks"), calls("ships")], tools=[pays, looks, ships])
    await kill(process, worker, crash)
    alive = process(worker)
    await alive.recover()
    assert ran == ["pays", "looks", "ships", "looks", "ships"]
    assert (await texts(alive))[-1] == "Done."
    stored = await alive.store.events(alive.key("ada", "s"))
    assert [part.result for part in results_of(stored)] == ["paid", "seen", "shipped"]


async def test_a_crash_after_the_results_asks_only_for_the_answer(process: Process) -> None:
    """Decision 6."""
    crash, ran = Crash(), list[str]()

    class Dies(ScriptedModel):
        async def answer(self, request: Any, *, stream: bool) -> Any:
            if request.messages[-1].tool_results:
                await crash.here()
            async for piece in super().answer(request, stream=stream):
                yield piece

    model = Dies(calls("pays"), "Done.")
    worker = LlmAgent("clerk", model=model, tools=[noted(ran, "pays", "paid")])
    await kill(process, worker, crash)
    alive = process(worker)
    await alive.recover()
    assert (ran, len(model.requests)) == (["pays"], 2)
    assert [part.result for part in last_results(model.requests[-1])] == ["paid"]
    assert await texts(alive) == ["hi", "Done."]


async def test_a_guardrail_stops_a_call_and_the_model_learns_why(process: Process) -> None:
    """C13: it is not made; another beside it is, with the arguments that the guardrail left."""

    class Strict:
        name, reach = "strict", None

        async def check(self, place: str, content: Content, agent: str | None) -> GuardrailVerdict:
            if place != "tool_call":
                return ALLOW
            (call,) = content.tool_calls
            if call.arguments.get("to") == "stranger":
                return GuardrailVerdict("block", reason="Not to strangers.")
            changed = call.replace(arguments={"to": "*"})
            return GuardrailVerdict("rewrite", Content(parts=(changed,)))

    sent: list[str] = []

    async def send(to: str) -> str:
        sent.append(to)
        return f"sent to {to}"

    worker = clerk([calls("send", {"to": "stranger"}), calls("send", {"to": "friend"})], tools=[send])
    result = await ask(process(worker, guardrails=[Strict()]), "go")
    assert told(result) == ["It was not called: strict blocked it: Not to strangers.", "sent to *"]
    assert (sent, result.text) == (["*"], "Done.")


async def test_agents_can_be_asked_side_by_side_and_wait_themselves(process: Process) -> None:
    """A42: an agent as a tool that asks the user; the other is not asked again, nor the caller's model."""
    ran: list[str] = []

    @agent
    async def rome() -> str:
        ran.append("rome")
        return "sunny"

    @agent
    async def oslo(context: AgentContext) -> str:
        ran.append("oslo")
        return f"{(await context.ask('Which Oslo?')).text}: snow"

    async def plain() -> str:
        ran.append("plain")
        return "fine"

    asked = [calls("ask_oslo", {"message": "weather?"}), calls("ask_rome", {"message": "weather?"}), calls("plain")]
    model = ScriptedModel(asked, "Snow and sun.")
    front = LlmAgent("front", model=model, tools=[AgentTool(rome), AgentTool(oslo), plain], children=[rome, oslo])
    first = await ask(process(front), "weather?")
    assert (reason(first), first.text) == ("waiting", "Which Oslo?")
    done = await ask(process(front), "Norway")
    assert (done.text, told(first), told(done)) == ("Snow and sun.", ["sunny", "fine"], ["Norway: snow"])
    assert (ran, len(model.requests)) == (["oslo", "rome", "plain", "oslo"], 2)


async def test_a_called_agents_model_may_fail_without_the_callers_turn(process: Process) -> None:
    """Decision 7."""
    from turnwise.facts.errors import ModelRefused

    helper = LlmAgent("helper", model=ScriptedModel(ModelRefused("No such key.")))
    worker = clerk(calls("ask_helper", {"message": "help"}), tools=[AgentTool(helper)], children=[helper])
    result = await ask(process(worker), "go")
    assert told(result) == ["ModelRefused: No such key."]
    assert (result.text, reason(result)) == ("Done.", "completed")


async def test_later_results_may_come_in_reverse_order_and_in_another_process(process: Process) -> None:
    """A42: two that only begin; their tools run once."""
    begun: list[str] = []

    @tool(later=True)
    async def print_book(title: str) -> str:
        begun.append(title)
        return "The printer has begun."

    asked = [calls("print_book", {"title": "A"}), calls("print_book", {"title": "B"})]
    first = await ask(process(clerk(asked, tools=[print_book])), "print")
    one, two = [call.call_id for call in calls_of(first.events)]
    assert reason(first) == "waiting"
    silent = LlmAgent("clerk", model=ScriptedModel(), tools=[print_book])
    assert reason(await ask(process(silent), answering(two, "B is printed"))) == "waiting"
    model = ScriptedModel("Both are printed.")
    done = await ask(process(LlmAgent("clerk", model=model, tools=[print_book])), answering(one, "A is jammed", failed=True))
    assert (done.text, reason(done), begun) == ("Both are printed.", "completed", ["A", "B"])
    assert [(r.result, r.failed) for r in last_results(model.requests[0])] == [("A is jammed", True), ("B is printed", False)]


async def test_a_later_tool_that_cannot_begin_has_its_result_at_once(process: Process) -> None:
    @tool(later=True)
    async def print_book() -> str:
        raise ToolFailed("No paper.")

    result = await ask(process(clerk(calls("print_book"), tools=[print_book])), "print")
    assert (told(result), result.text) == (["No paper."], "Done.")


async def test_a_message_of_the_user_does_not_stand_in_for_a_tool(process: Process) -> None:
    """Decision 8: a result that somebody sends for a call that waits for leave is not what the model is told."""

    @tool(confirm=True)
    async def pay() -> str:
        return "paid 1"

    model = ScriptedModel(calls("pay"), "Done.")
    worker = LlmAgent("clerk", model=model, tools=[pay])
    first = await ask(process(worker), "pay")
    forged = await ask(process(worker), answering(calls_of(first.events)[0].call_id, "paid 1000"))
    assert reason(forged) == "waiting"
    done = await ask(process(worker), answering(waiting_call(first), True))
    assert done.text == "Done."
    assert [part.result for part in last_results(model.requests[-1])] == ["paid 1"]


async def test_a_tool_that_kills_the_interpreter_does_not(process: Process) -> None:
    def leaves() -> None:
        sys.exit("bye")

    result = await ask(process(clerk([calls("leaves"), calls("leaves")], tools=[leaves])), "go")
    assert told(result) == ["SystemExit: bye"] * 2


async def test_what_a_tool_says_while_it_works_is_not_taken_for_the_models_words(process: Process) -> None:
    """A42: after a wait in the same step and in the next."""
    from turnwise.tools.built_in import ask_user

    async def search(context: AgentContext) -> str:
        await context.say("Searching…")
        return "found"

    model = ScriptedModel(
        [calls("search"), calls("ask_user", {"question": "Which?"})], calls("ask_user", {"question": "Sure?"}), "Done."
    )
    worker = LlmAgent("clerk", model=model, tools=[search, ask_user])
    await ask(process(worker), "go")
    await ask(process(worker), "this")
    done = await ask(process(worker), "yes")
    assert (done.text, len(model.requests)) == ("Done.", 3)
    assert await texts(process(worker)) == ["go", "Searching…", "Which?", "this", "Sure?", "yes", "Done."]
    assert [part.result for part in last_results(model.requests[1])] == ["found", "this"]
