"""The tree of spans for whatever may stand in a log, in whatever order."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, strategies as st
from opentelemetry.trace import StatusCode
from telemetry_play import Traced, about

from turnwise.facts.content import Content, TextPart, ToolCallPart, ToolResultPart
from turnwise.facts.events import USER, Actions, Branch, End, ErrorInfo, Event, Guarded, Rewind, StepRecord
from turnwise.facts.selections import Selection, Verdict
from turnwise.facts.sessions import SessionKey
from turnwise.facts.usage import Usage
from turnwise.telemetry.traces import nanoseconds

KEY = SessionKey("app", "ada", "s")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(second: float) -> datetime:
    return NOON + timedelta(seconds=second)


def event(second: float, author: str = "a", branch: str = "1", *parts: Any, attempt: int = 1, **fields: Any) -> Event:
    error = fields.pop("error", None)
    content = Content(parts=parts) if parts else None
    return Event(
        id=f"e{second}", author=author, invocation_id="i", created_at=at(second), branch=Branch(branch), content=content,
        attempt=attempt, error=error, actions=Actions(**fields),
    )  # fmt: skip


def asked(second: float = 0, agent: str = "a", **more: Any) -> Event:
    selection = Selection(agent=agent, method="m", confidence=1.0, reason="", ms=100.0, **more)
    return event(second, USER, "", TextPart(text="hi"), selection=selection)


async def traced(*events: Event, end: str = "completed", **options: Any) -> Traced:
    """The spans of these events."""
    told = Traced(clock=lambda: nanoseconds(at(1_000)), **options)
    for each in events:
        await told.hooks.stored(KEY, each)
    await told.hooks.ended(KEY, "i", end)
    return told


def seconds(told: Traced, name: str) -> tuple[float, float]:
    """When the span of that name began and ended."""
    span = told.span(name)
    return tuple((moment - nanoseconds(NOON)) / 1e9 for moment in (span.start_time or 0, span.end_time or 0))  # type: ignore[return-value]


def used(ms: float = 2_000, model: str = "openai:gpt-5") -> Usage:
    return Usage(model=model, ms=ms)


async def test_the_whole_begins_when_it_is_decided_and_ends_with_the_last_word() -> None:
    told = await traced(asked(10), event(12, usage=used(), end=End()))
    assert seconds(told, "turnwise.message") == (9.9, 14)
    assert seconds(told, "invoke_agent a") == (10, 14)
    assert seconds(told, "chat gpt-5") == (12, 14)


async def test_an_answer_that_was_there_when_its_event_was_made_ends_with_it() -> None:
    """As of agents of other libraries: otherwise it would end after it was told of."""
    told = Traced(clock=lambda: nanoseconds(at(12.5)))
    for each in (asked(10), event(12, usage=used(), end=End())):
        await told.hooks.stored(KEY, each)
    await told.hooks.ended(KEY, "i", "completed")
    assert seconds(told, "chat gpt-5") == (10.5, 12.5)


async def test_a_tools_time_is_that_from_its_call_to_its_record() -> None:
    told = await traced(
        asked(0),
        event(1, "a", "1", ToolCallPart(call_id="c", tool="look"), usage=used()),
        event(7, steps=(StepRecord(key="1:tool#1.0", call="c"),)),
        event(9, "a", "1", ToolResultPart(call_id="c", tool="look"), steps=(StepRecord(key="1:results#1", says=True),)),
    )
    assert seconds(told, "execute_tool look") == (3, 7)


async def test_a_call_from_before_a_wait_begins_with_the_reply() -> None:
    """Its question is in spans that have ended, perhaps in another process."""
    told = await traced(
        asked(50),
        event(53, steps=(StepRecord(key="1:tool#1.0", call="c"),)),
        event(54, "a", "1", ToolResultPart(call_id="c", tool="pay")),
    )
    assert seconds(told, "execute_tool pay") == (50, 53)


async def test_a_call_whose_result_comes_later_ends_with_the_wait() -> None:
    told = await traced(
        asked(0),
        event(1, "a", "1", ToolCallPart(call_id="c", tool="ship")),
        event(2, steps=(StepRecord(key="1:tool#1.0", call="c-begun"),)),
        event(2, steps=(StepRecord(key="1:later#1.0"),)),
        end="waiting",
    )
    assert told.tree() == ["turnwise.message", "  invoke_agent a", "    execute_tool ship"]


async def test_a_call_that_is_not_agreed_to_yet_was_not_made() -> None:
    told = await traced(asked(0), event(1, "a", "1", ToolCallPart(call_id="c", tool="pay")), end="waiting")
    assert told.tree() == ["turnwise.message", "  invoke_agent a"]


async def test_names_that_a_model_made_up_are_not_told() -> None:
    said = ToolCallPart(call_id="c", tool="my dog Rex is sick")
    told = await traced(asked(0), event(1, "a", "1", said), event(2, "a", "1", ToolResultPart(call_id="c", failed=True)))
    assert told.tree()[-1] == "    execute_tool other"
    assert "Rex" not in told.texts()


async def test_turns_follow_each_other_without_a_gap() -> None:
    told = await traced(asked(0), event(3, transfer_to="b"), event(8, "b", "2", end=End()))
    assert seconds(told, "invoke_agent a") == (0, 3)
    assert seconds(told, "invoke_agent b") == (3, 8)


async def test_who_never_said_a_word_had_a_turn() -> None:
    told = await traced(asked(0), event(9, "a", "", end=End(reason="limit:invocation_seconds")), end="limit:invocation_seconds")
    assert seconds(told, "invoke_agent a") == (0, 9)
    assert about(told.roots[0], "error.type") == ("limit:invocation_seconds",)


async def test_a_question_which_agent_is_meant_is_nobodys_turn() -> None:
    """E5"""
    usage = Verdict(selector="model", usage=used())
    unclear = asked(0, outcome="clarify", verdicts=(usage,))
    told = await traced(unclear, event(1, "a", "1", TextPart(text="Which?"), end=End(reason="clarify")), end="clarify")
    assert told.tree() == ["turnwise.message", "  chat gpt-5"]
    assert seconds(told, "chat gpt-5") == (-2, 0)


async def test_whoever_holds_the_floor_gives_the_turn_its_name() -> None:
    """A reply may be for an agent below: then the decision names that one."""
    told = await traced(asked(0, agent="below"), event(1, "below", "1/below"), event(2, "above", "1", TextPart(text="hi")))
    assert told.tree() == ["turnwise.message", "  invoke_agent above", "    invoke_agent below"]
    assert about(told.span("invoke_agent above"), "gen_ai.agent.name") == ("above",)


async def test_runs_that_say_nothing_are_known_by_their_end() -> None:
    chosen = Selection(agent="quiet", method="m", confidence=1.0, reason="", occasion="flow")
    told = await traced(asked(0), event(1, selection=chosen), event(4), event(5, finished=("1/quiet#1", "1/unheard of")))
    assert seconds(told, "invoke_agent quiet") == (1, 4)
    assert seconds(told, "invoke_agent unheard of") == (4, 5)


async def test_names_in_branches_are_read_as_they_were_written() -> None:
    told = await traced(asked(0), event(1, "x", "1/a%2Fb#2/c"))
    assert told.tree()[2:] == ["    invoke_agent a/b", "      invoke_agent x"]


async def test_an_error_is_on_the_run_that_it_is_of() -> None:
    broken = ErrorInfo(code="model.refused", message="my dog Rex")
    told = await traced(asked(0), event(1, "b", "1/b", error=broken), event(2), end="failed")
    assert {span.name for span in told.spans if span.status.status_code is StatusCode.ERROR} == {
        "turnwise.message",
        "invoke_agent b",
    }
    assert about(told.span("invoke_agent b"), "error.type") == ("model.refused",)
    assert "Rex" not in told.texts()


async def test_what_guardrails_did_is_told_without_why() -> None:
    did = Guarded(guardrail="secrets", action="rewrite", reason="my dog Rex")
    told = await traced(asked(0), event(1, guarded=(did,)))
    (seen,) = told.span("invoke_agent a").events
    assert (seen.name, dict(seen.attributes or {})) == (
        "turnwise.guardrail",
        {"turnwise.guardrail.name": "secrets", "turnwise.guardrail.action": "rewrite"},
    )


async def test_an_answer_that_was_cut_off_says_so() -> None:
    told = await traced(asked(0), event(1, usage=used(), cut_off="tokens"))
    assert about(told.span("chat gpt-5"), "gen_ai.response.finish_reasons") == (("length",),)


def test_times_that_cannot_be_written_are_the_nearest_that_can() -> None:
    """An agent's own events may have any, and none of them may keep the others from being sent."""
    assert nanoseconds(datetime(1, 1, 1, tzinfo=UTC)) == 0
    assert nanoseconds(datetime(9999, 1, 1, tzinfo=UTC)) == 2**63 - 1
    assert nanoseconds(NOON.replace(tzinfo=None)) == nanoseconds(NOON)


_PATHS = st.lists(st.sampled_from(["~x", "~y", "z", "z#1", ">w#c1", "%2F"]), max_size=3)
_BRANCHES = st.builds(lambda turn, path: "/".join([turn, *path]), st.sampled_from(["1", "2"]), _PATHS)
_CALLS = st.sampled_from(["c1", "c2"])
_PARTS = st.lists(
    st.one_of(
        st.builds(TextPart, text=st.just("words")),
        st.builds(ToolCallPart, call_id=_CALLS, tool=st.sampled_from(["look", "no tool"])),
        st.builds(ToolResultPart, call_id=_CALLS, failed=st.booleans()),
    ),
    max_size=2,
)
_ACTIONS = st.fixed_dictionaries(
    {},
    optional={
        "usage": st.builds(Usage, ms=st.sampled_from([0.0, 5_000.0]), calls=st.sampled_from([1, 3])),
        "finished": st.lists(_BRANCHES, max_size=2).map(tuple),
        "transfer_to": st.sampled_from(["a", "b"]),
        "steps": st.lists(
            st.builds(
                StepRecord, key=_BRANCHES.map(lambda b: f"{b}:step"), says=st.booleans(), call=st.none() | _CALLS
            ),
            max_size=2,
        ).map(tuple),
        "selection": st.just(Selection(agent="b", method="m", confidence=1.0, reason="")),
    },
)  # fmt: skip
_EVENTS = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), _BRANCHES | st.just(""), _PARTS, _ACTIONS, st.integers(0, 9)), max_size=12
)


@given(_EVENTS, st.sampled_from(["completed", "waiting", "lost", "failed"]), st.integers(0, 12))
def test_whatever_is_stored_nothing_stays_open(events: list[Any], end: str, again: int) -> None:
    """Every span that begins ends, not before it began, and below one that has ended; also if it is run again in between."""
    stored = [asked(0)]
    for number, (author, branch, parts, actions, second) in enumerate(events):
        if number == again:
            stored.append(event(second, author, "1", attempt=2, rewind=Rewind(from_sequence=1, invocation_id="i")))
        stored.append(event(second, author, branch, *parts, **actions))
    told = asyncio.run(traced(*stored, end=end))
    assert told.begun == len(told.spans)
    ids = {span.context.span_id for span in told.spans if span.context}
    for span in told.spans:
        assert (span.start_time or 0) <= (span.end_time or 0), span.name
        assert span.parent is None or span.parent.span_id in ids
    runs = {s.context.span_id: s.end_time or 0 for s in told.spans if s.context and s.name.startswith("invoke_agent")}
    for span in told.spans:
        if span.name.startswith("invoke_agent") and span.parent and span.parent.span_id in runs:
            assert runs[span.parent.span_id] >= (span.end_time or 0), "whoever calls is there as long as who is called"
