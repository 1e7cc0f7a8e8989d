"""Guardrails in their order, and what is recorded of what they say (C13). What they do to a run: tests/integration/runner."""

import asyncio
from typing import Any

import pytest

from turnwise.facts.content import Content, TextPart, ToolCallPart, ToolResultPart, text_content
from turnwise.facts.errors import AgentFailed
from turnwise.facts.events import Actions, ErrorInfo, Event, Guarded, StepRecord, Summary
from turnwise.facts.selections import Selection, Verdict
from turnwise.facts.usage import Usage
from turnwise.guardrails.secrets import Secrets
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict
from turnwise.runner.guardrail_results import GuardrailResult
from turnwise.runner.guardrails import Guardrails
from turnwise.testing.fakes import CountingIssuer, FunctionGuardrail


def swap(name: str, old: str, new: str, **options: Any) -> FunctionGuardrail:
    def judge(place: str, text: str) -> GuardrailVerdict:
        return GuardrailVerdict("rewrite", text_content(text.replace(old, new)), f"{old} to {new}")

    return FunctionGuardrail(name, judge, **options)


def guarding(*guardrails: Any, seconds: float = 5.0) -> Guardrails:
    return Guardrails(guardrails, seconds)


def event(content: Content | None, **actions: Any) -> Event:
    now = CountingIssuer().now()
    return Event(id="e", author="a", invocation_id="i", created_at=now, content=content, actions=Actions(**actions))


async def test_each_sees_what_those_before_it_left() -> None:
    passed = await guarding(swap("one", "a", "b"), swap("two", "b", "c")).message(text_content("a", "user"))
    assert passed.content == text_content("c", "user")
    assert [(each.guardrail, each.reason) for each in passed.guarded] == [("one", "a to b"), ("two", "b to c")]


async def test_a_rewrite_that_changes_nothing_is_not_recorded() -> None:
    content = text_content("x", "user")
    assert await guarding(swap("one", "a", "b")).message(content) == GuardrailResult(content)


async def test_after_a_block_nobody_is_asked() -> None:
    asked: list[str] = []
    block = FunctionGuardrail("no", lambda *_: GuardrailVerdict("block", reason="No."))
    passed = await guarding(block, FunctionGuardrail("late", lambda _, text: asked.append(text))).message(text_content("x"))
    assert (passed.content, asked) == (None, [])
    assert passed.guarded == (Guarded(guardrail="no", action="block", reason="No."),)


async def test_what_was_blocked_before_is_not_judged_again() -> None:
    """Decision 6: what a new attempt says again is what guardrails left of it in the last."""
    blocked = event(text_content("No."), blocked_by="g", guarded=(Guarded(guardrail="g", action="block"),))
    assert await guarding(FunctionGuardrail("no", lambda *_: GuardrailVerdict("block"))).event(blocked) is blocked


async def test_of_a_blocked_answer_the_work_stays_on_record() -> None:
    """Decision 6: the step that said it, what it cost, and what it wrote besides."""
    record, usage = StepRecord(key="1:say", says=True), Usage(model="m", input_tokens=3)
    said = event(text_content("x"), steps=(record,), usage=usage, state_delta={"n": 1}, next="bob")
    stored = await guarding(FunctionGuardrail("no", lambda *_: GuardrailVerdict("block", reason="No."))).event(said)
    assert stored.text == "No."
    assert stored.actions == Actions(
        steps=(record,),
        usage=usage,
        state_delta={"n": 1},
        blocked_by="no",
        guarded=(Guarded(guardrail="no", action="block", reason="No."),),
    )


async def test_a_result_that_a_rewrite_leaves_out_has_failed() -> None:
    """A23: the call has a result, whatever guardrails do."""
    content = Content(parts=(TextPart(text="a"), ToolResultPart(call_id="1", tool="t", result="a")))
    stored = await guarding(swap("one", "a", "b")).event(event(content))
    assert stored.content == Content(
        parts=(ToolResultPart(call_id="1", tool="t", result="a to b", failed=True), TextPart(text="b"))
    )


async def test_an_event_of_calls_only_is_no_answer() -> None:
    places: list[str] = []
    call = ToolCallPart(call_id="1", tool="t")
    await guarding(FunctionGuardrail("g", lambda place, _: places.append(place))).event(event(Content(parts=(call,))))
    assert places == ["tool_call"]


@pytest.mark.parametrize("content", [None, Content()])
async def test_who_says_nothing_is_not_judged(content: Content | None) -> None:
    silent = event(content)
    assert await guarding(FunctionGuardrail("no", lambda *_: GuardrailVerdict("block"))).event(silent) == silent


@pytest.mark.parametrize("reach", [None, -1, "3"])
def test_whose_reach_is_not_known_has_to_see_all(reach: Any) -> None:
    assert guarding(swap("one", "a", "b", reach=reach)).stages("a") is None
    assert guarding(swap("one", "a", "b", reach=3)).stages("a") is not None


def test_a_cancelled_check_is_no_verdict() -> None:
    """A23: whoever stops the run stops the guardrail too."""

    class Hangs:
        name, reach = "hangs", 0

        async def check(self, *_: object) -> GuardrailVerdict:
            await asyncio.Event().wait()
            return ALLOW

    async def cancelled() -> bool:
        task = asyncio.create_task(guarding(Hangs()).message(text_content("x")))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        return task.cancelled()

    assert asyncio.run(cancelled())


@pytest.mark.parametrize(("action", "left"), [("rewrite", Summary(text="They said ***.", until=4)), ("block", None)])
async def test_a_summary_is_judged_as_an_answer(action: Any, left: Summary | None) -> None:
    """C13: it may hold what was said before guardrails were there; without one, a later turn makes another."""

    def judge(place: str, text: str) -> GuardrailVerdict | None:
        if "secret" not in text:
            return None
        return GuardrailVerdict(action, text_content(text.replace("secret", "***")), f"A word in the {place}.")

    said = event(text_content("Noted."), summary=Summary(text="They said secret.", until=4))
    stored = await guarding(FunctionGuardrail("g", judge)).event(said)
    assert (stored.text, stored.actions.summary) == ("Noted.", left)
    assert stored.actions.guarded == (Guarded(guardrail="g", action=action, reason="A word in the answer."),)
    assert stored.actions.blocked_by is None


async def test_a_name_that_an_agent_made_up_is_judged_and_cut() -> None:
    """C13, A37."""
    judges = guarding(swap("one", "secret", "***"))
    assert await judges.name("nobody\n", "a") == ("'nobody\\n'", ())
    assert (await judges.name("x" * 500, "a"))[0] == f"'{'x' * 64}'…"
    told, guarded = await judges.name("x" * 60 + "secret", "a")
    assert (told, len(guarded)) == (f"'{'x' * 60}***'", 1)
    blocks = guarding(FunctionGuardrail("no", lambda *_: GuardrailVerdict("block", reason="No.")))
    assert (await blocks.name("nobody", "a"))[0] == "a name that is withheld"


async def test_a_call_without_arguments_that_can_be_read_cannot_become_one_that_is_made() -> None:
    """C13: a rewrite that leaves out what the model wrote is no object of arguments."""
    call = ToolCallPart(call_id="1", tool="t", raw='{"to": "secret')
    for arguments, raw in (({}, None), ({"to": "x"}, None), ({}, '{"to": "***')):

        class Rewrites:
            name, reach = "g", 0

            async def check(self, place: str, *_: object, left: Any = (arguments, raw)) -> GuardrailVerdict:
                part = ToolCallPart(call_id="1", tool="t", arguments=left[0], raw=left[1])
                return GuardrailVerdict("rewrite", Content(parts=(part,)), "A word.") if place == "tool_call" else ALLOW

        stored = await guarding(Rewrites()).event(event(Content(parts=(call,))))
        assert stored.content == Content(parts=(ToolCallPart(call_id="1", tool="t", raw=raw or ""),))


@pytest.mark.parametrize("name", ["", "model#1", "tool#12.345", "find_orders", "flow/draft", "confirm?#1.0"])
async def test_plain_names_need_no_check(name: str) -> None:
    """C13: names of code are recorded as they are, whatever a guardrail bans."""
    assert await guarding(FunctionGuardrail("no", lambda *_: GuardrailVerdict("block"))).allows_name(name, "a")


@pytest.mark.parametrize(
    "name",
    [
        "ann@a.example",
        "4111111111111111",
        "a1b2c3d4e5f6g7",
        "sk-ABC",
        "token: abc",
        "x" * 49,
        "два слова",
        "ชื่อ",
        "名字",
        "a\nb",
    ],
)
async def test_other_names_are_checked_once_each(name: str) -> None:
    """C13"""
    asked: list[str] = []
    checks = guarding(FunctionGuardrail("g", lambda place, text: asked.append(f"{place} {text}")))
    assert await checks.allows_name(name, "a")
    assert await checks.allows_name(name, "a")
    assert asked == [f"answer {name}"]
    refuses = guarding(FunctionGuardrail("no", lambda *_: GuardrailVerdict("block")))
    with pytest.raises(AgentFailed) as raised:
        await refuses.check_names("the key of a step", ["plain", name], "a")
    assert name not in str(raised.value)


@pytest.mark.parametrize("code", ["", "x" * 65, 7, None])
async def test_a_code_that_is_none_becomes_the_usual_one(code: object) -> None:
    assert (await guarding().error(code, "x", "a"))[0] == ErrorInfo(code="agent.failed", message="x")
    assert (await guarding().error("shop.no_stock", "x", "a"))[0].code == "shop.no_stock"


@pytest.mark.parametrize(("action", "left"), [("rewrite", "I know ***."), ("block", "The model's text is withheld.")])
async def test_what_a_model_says_of_its_choice_is_checked(action: Any, left: str) -> None:
    """C13: the decision record keeps the model's reason."""

    def judge(_: str, text: str) -> GuardrailVerdict | None:
        if "secret" not in text:
            return None
        return GuardrailVerdict(action, text_content(text.replace("secret", "***")))

    by_rule = Verdict(selector="patterns", reason="A secret pattern.")
    by_model = Verdict(selector="model", reason="I know secret.", usage=Usage(model="m"))
    decision = Selection(agent="a", method="m", confidence=1.0, reason="model: I know secret.", verdicts=(by_rule, by_model))
    recorded = await guarding(FunctionGuardrail("g", judge)).selection(decision)
    assert recorded.reason == f"model: {left}"
    assert [each.reason for each in recorded.verdicts] == ["A secret pattern.", left]


@pytest.mark.parametrize("text", ["", "密钥在这里", "รหัสลับอยู่ที่นี่", "ключ тут"])
async def test_a_call_of_a_tool_with_a_secret_in_its_name_is_blocked_and_renamed(text: str) -> None:
    """C13: another name would be another tool."""
    key = "sk-abcdEFGH1234ijklMNOP5678"
    call = ToolCallPart(call_id="1", tool=f"{text}{key}{text}")
    said = Content(parts=(call, ToolResultPart(call_id="1", tool=call.tool, result=f"{text}{key}")))
    stored = await guarding(Secrets()).event(event(said))
    assert key not in stored.model_dump_json()
    assert stored.content is not None
    assert stored.content.tool_calls[0].tool == stored.content.tool_results[0].tool == "withheld"
    assert [(each.action, each.call_id) for each in stored.actions.guarded] == [("block", "1"), ("rewrite", None)]
