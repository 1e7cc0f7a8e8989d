"""Whatever is told, the client finds it in order, and has in the end what the log has."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

from ag_ui_verify import Client, Wire
from hypothesis import given, settings, strategies as st

from turnwise.facts.callers import Caller
from turnwise.facts.content import Content, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from turnwise.facts.events import USER, Actions, Await, ErrorInfo, Event, Rewind
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import merge, visible
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.gateway.ag_ui.messages import NOTHING, ClientMessages, ClientState, messages_in
from turnwise.gateway.ag_ui.schema import ClientStateMirror
from turnwise.gateway.ag_ui.stream import RunEvents, TurnSteps
from turnwise.gateway.redaction import Redactor

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TREE = AgentTree([AgentCard(name="a"), AgentCard(name="b", parent="a"), AgentCard(name="c", parent="a")])
USERS, OPERATOR = Caller(id="u", user="ann"), Caller(id="o", role="operator")
CHOSEN = Selection(agent="a", method="m", confidence=1.0, reason="r")
RUN = {"threadId": "t", "runId": "r"}
ASKED = Event(
    id="asked", author=USER, invocation_id="i", created_at=NOW, sequence=1, actions=Actions(selection=CHOSEN), content=None
)


def event(id_: str, *said: str | Part, author: str = "a", branch: str = "1", **more: Any) -> Event:
    """Keywords that are no fields of Event are actions."""
    own = {name: more.pop(name) for name in ("scope", "partial", "offset", "sequence", "error") if name in more}
    parts = tuple(TextPart(text=part) if isinstance(part, str) else part for part in said)
    content = Content(parts=parts) if parts else None
    made: dict[str, Any] = {"id": id_, "author": author, "branch": branch, "invocation_id": "i", "created_at": NOW}
    return Event(**made, content=content, actions=Actions(**more), **own)


def piece(id_: str, said: str | Part, **more: Any) -> Event:
    return event(id_, said, partial=True, **more)


def call(call_id: str, tool: str = "look", **more: Any) -> ToolCallPart:
    return ToolCallPart(call_id=call_id, tool=tool, arguments={"x": 1}, **more)


def result(call_id: str, value: Any = "found") -> ToolResultPart:
    return ToolResultPart(call_id=call_id, tool="look", result=value)


def _described(_: str) -> str | None:
    return None


def told(
    events: Iterable[Event], caller: Caller = OPERATOR, held: ClientState = NOTHING, *, announced: bool = True
) -> list[Wire]:
    """A whole run in which these events happen."""
    view = Redactor(caller, TREE)
    narration = RunEvents(
        view, TurnSteps(_described, supports_subagents=announced), ClientMessages(held), ClientStateMirror({})
    )
    wires: list[Wire] = [{"type": "RUN_STARTED", **RUN}, {"type": "STATE_SNAPSHOT", "snapshot": {}}]
    for each in (ASKED, *events):
        wires += narration.wires_of(each)
    wires += (*narration.close(), *narration.speakers.close({}))
    return [*wires, {"type": "RUN_FINISHED", **RUN, "outcome": {"type": "success"}}]


def texts(client: Client) -> list[str]:
    return [message["content"] for message in client.messages if message.get("content")]


def heard(events: Iterable[Event], caller: Caller = OPERATOR, held: Sequence[Wire] = ()) -> list[str]:
    """What the client's messages say in the end."""
    ids = frozenset(message["id"] for message in held)
    return texts(Client(held).take(told(events, caller, ClientState(ids, frozenset(), lambda: list(held)))))


def types(wires: Iterable[Wire], *left_out: str) -> list[str]:
    usual = {"RUN_STARTED", "RUN_FINISHED", "STATE_SNAPSHOT", "CUSTOM", "STEP_STARTED", "STEP_FINISHED", *left_out}
    return [wire["type"] for wire in wires if wire["type"] not in usual]


def test_a_text_in_pieces_is_one_message() -> None:
    wires = told([piece("1", "ab", offset=0), piece("1", "cd", offset=2), event("1", "abcdef", sequence=2)], announced=False)
    assert types(wires) == ["TEXT_MESSAGE_START", *["TEXT_MESSAGE_CONTENT"] * 3, "TEXT_MESSAGE_END"]
    assert texts(Client().take(wires)) == ["abcdef"]
    assert heard([event("1", "whole", sequence=2)]) == ["whole"]


def test_pieces_that_were_missed_come_with_the_whole() -> None:
    late = [piece("1", "cd", offset=2), piece("1", "ef", offset=4), event("1", "abcdef", sequence=2)]
    assert heard(late) == ["abcdef"]
    torn = [piece("1", "ab", offset=0), piece("1", "ef", offset=4), event("1", "abcdef", sequence=2)]
    assert heard(torn) == ["abcdef"]
    twice = [piece("1", "ab", offset=0), piece("1", "bcd", offset=1), event("1", "abcd", sequence=2)]
    assert heard(twice) == ["abcd"]


def test_what_the_whole_says_otherwise_is_put_right() -> None:
    wires = told([piece("1", "secret", offset=0), event("1", "*****", sequence=2)])
    assert "MESSAGES_SNAPSHOT" in types(wires)
    assert texts(Client().take(wires)) == ["*****"]
    # Pieces have no line breaks where parts of the text meet.
    assert heard([piece("1", "one"), piece("1", "two"), event("1", "one", call("k"), "two", sequence=2)]) == ["one\ntwo"]


def test_what_a_process_left_when_it_died_does_not_stand() -> None:
    """A dead attempt's text and calls are closed, and taken back by a snapshot."""
    left = [event("1", call("k"), sequence=2), piece("2", "half", offset=0)]
    again = event("3", sequence=3, rewind=Rewind(from_sequence=2, invocation_id="i"))
    wires = told(
        [*left, again, event("4", call("k"), sequence=4), event("5", result("k"), sequence=5), event("6", "all", sequence=6)]
    )
    client = Client().take(wires)
    assert texts(client) == ["found", "all"]
    assert [message["id"] for message in client.messages] == ["4", "result:k", "6"]


def test_users_do_not_hear_what_is_private() -> None:
    """Thinking, private calls, what is said on tasks and in private calls, and what calls gave."""
    hidden = [
        event("1", ThinkingPart(text="hm"), sequence=2),
        piece("2", ThinkingPart(text="hm")),
        event("3", "x", branch="1/>b#1", author="b", sequence=3),
        event("4", "x", scope=("task",), sequence=4),
        piece("5", "x", scope=("task",)),
        event("6", call("k", private=True), sequence=5),
        event("7", result("k"), sequence=6),
    ]
    assert types(told(hidden, USERS), "SUBAGENT_STARTED", "SUBAGENT_FINISHED") == []
    shown = told([event("8", call("l"), sequence=2), event("9", result("l"), sequence=3)], USERS)
    (args,) = [wire for wire in shown if wire["type"] == "TOOL_CALL_ARGS"]
    (gave,) = [wire for wire in shown if wire["type"] == "TOOL_CALL_RESULT"]
    assert (args["delta"], gave["content"]) == ("{}", "")
    assert types(told(hidden), "SUBAGENT_STARTED", "SUBAGENT_FINISHED").count("REASONING_END") == 2


def test_who_is_called_in_private_is_not_announced_for_what_he_writes() -> None:
    """Not to users nor to anybody, before whoever called him; the state is told."""
    wrote = event("1", state_delta={"x": 1}, branch="1/>b#1", author="b", sequence=2)
    for caller in (USERS, OPERATOR):
        wires = told([wrote, event("2", "Yes.", sequence=3)], caller)
        assert [wire["name"] for wire in wires if wire["type"] == "SUBAGENT_STARTED"] == ["a"]
        (delta,) = [wire for wire in wires if wire["type"] == "STATE_DELTA"]
        assert "subagentRunId" not in delta


def test_thinking_in_pieces_is_told_once() -> None:
    thought = [piece("1", ThinkingPart(text="h")), piece("1", ThinkingPart(text="m")), piece("1", "so", offset=0)]
    wires = told([*thought, event("1", ThinkingPart(text="hm"), "so", sequence=2)], announced=False)
    assert types(wires) == [
        "REASONING_START",
        "REASONING_MESSAGE_START",
        *["REASONING_MESSAGE_CONTENT"] * 2,
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
    ]
    Client().take(wires)


def test_children_of_a_parallel_agent_speak_at_once() -> None:
    """A41."""
    left, right = {"branch": "1/~b", "author": "b"}, {"branch": "1/~c", "author": "c"}
    pieces = [piece("1", "le", offset=0, **left), piece("2", "ri", offset=0, **right)]
    wires = told([*pieces, event("2", "right", sequence=2, **right), event("1", "left", sequence=3, **left)])
    client = Client().take(wires)
    assert {message["name"]: message["content"] for message in client.messages} == {"b": "left", "c": "right"}
    assert len({message["subagentRunId"] for message in client.messages}) == 2


def test_the_floor_goes_from_agent_to_agent() -> None:
    handed = event("1", "Ask b.", transfer_to="b", sequence=2)
    wires = told([handed, event("2", "Yes?", author="b", branch="2", sequence=3)])
    floor = [
        (wire["type"], wire.get("stepName") or wire.get("name")) for wire in wires if wire["type"].startswith(("ST", "SU"))
    ]
    assert floor[1:] == [
        ("STEP_STARTED", "a"),
        ("SUBAGENT_STARTED", "a"),
        ("SUBAGENT_FINISHED", None),
        ("STEP_FINISHED", "a"),
        ("STEP_STARTED", "b"),
        ("SUBAGENT_STARTED", "b"),
        ("SUBAGENT_FINISHED", None),
        ("STEP_FINISHED", "b"),
    ]
    Client().take(wires)


def test_a_client_that_knows_no_subagents_is_told_of_none() -> None:
    wires = told([event("1", "Yes?", sequence=2)], announced=False)
    assert not [wire for wire in wires if "subagentRunId" in wire or wire["type"].startswith("SUBAGENT")]


def test_what_failed_on_the_way_is_a_subagents_error() -> None:
    failed = event("2", branch="1/~b", author="b", sequence=3, error=ErrorInfo(code="agent.failed", message="boom"))
    wires = told([event("1", "well", branch="1/~b", author="b", sequence=2), failed, event("3", "on", sequence=4)], USERS)
    (error,) = [wire for wire in wires if wire["type"] == "SUBAGENT_ERROR"]
    assert (error["message"], error["code"]) == ("The agent failed.", "agent.failed")
    Client().take(wires)


def test_what_the_client_has_is_not_told_a_second_time() -> None:
    """Text that comes again would be appended to what is there."""
    held = [{"id": "u", "role": "user", "content": "hi"}, {"id": "1", "role": "assistant", "content": "Hel", "name": "a"}]
    again = [piece("1", "Hel", offset=0), event("1", "Hello", sequence=2)]
    assert heard(again, held=held) == ["hi", "Hello"]
    wires = told(again, held=ClientState(frozenset({"u", "1"}), frozenset(), lambda: held), announced=False)
    assert types(wires) == ["MESSAGES_SNAPSHOT"]


def test_state_and_artifacts_and_the_decision() -> None:
    wires = told(
        [
            event("1", state_delta={"a/b": 1, "app:x": 2, "temp:y": 3}, sequence=2),
            event("2", state_delta={"a/b": None, "gone": None}, artifact_versions={"f": 1}, sequence=3),
        ],
        USERS,
    )
    assert [wire["delta"] for wire in wires if wire["type"] == "STATE_DELTA"] == [
        [{"op": "add", "path": "/a~1b", "value": 1}],
        [{"op": "remove", "path": "/a~1b"}],
    ]
    customs = {wire["name"]: wire["value"] for wire in wires if wire["type"] == "CUSTOM"}
    assert customs["turnwise.artifacts"] == {"f": 1}
    assert customs["turnwise.selection"]["agent"] == "a"
    Client().take(wires)


def test_a_question_is_told_and_the_call_that_asks_leave_is_not() -> None:
    """A42."""
    asks = ToolCallPart(call_id="k-ok", tool="confirm", private=True, arguments={"tool": "pay", "arguments": {}, "call": "k"})
    leave = event("2", "May I?", asks, awaits=Await(id="k-ok", kind="tool_result"), sequence=3)
    for caller in (USERS, OPERATOR):
        wires = told([event("1", call("k", "pay"), sequence=2), leave], caller)
        assert [wire["toolCallName"] for wire in wires if wire["type"] == "TOOL_CALL_START"] == ["pay"]
        assert texts(Client().take(wires)) == ["May I?"]


class Stream:
    """A made-up stream of one invocation, live pieces and crashes among it: what a feed could publish."""

    def __init__(self, random: Random) -> None:
        self._random, self._sequence, self._ids = random, 1, 0
        self._open: dict[str, tuple[str, dict[str, Any]]] = {}
        self._turn = 1
        self.events: list[Event] = []

    def play(self, length: int) -> "Stream":
        acts: tuple[Any, ...] = (
            self._piece,
            self._piece,
            self._piece,
            self._whole,
            self._whole,
            self._calls,
            self._results,
            self._crash,
        )
        acts += (self._hand_over, self._state, self._fail)
        for _ in range(length):
            self._random.choice(acts)()
        return self

    @property
    def standing(self) -> list[Event]:
        return visible(each for each in self.events if not each.partial)

    def _store(self, id_: str, *said: str | Part, **more: Any) -> None:
        self._sequence += 1
        self.events.append(event(id_, *said, sequence=self._sequence, **more))

    def _new(self) -> str:
        self._ids += 1
        return f"e{self._ids}"

    def _where(self) -> dict[str, Any]:
        author, below = self._random.choice([("a", ""), ("b", "/~b"), ("c", "/~c"), ("b", "/b#0"), ("c", "/>c#1")])
        scope = self._random.choice([(), (), (), ("task",)])
        return {"author": author, "branch": f"{self._turn}{below}", "scope": scope}

    def _piece(self) -> None:
        if self._open and self._random.random() < 0.7:
            id_ = self._random.choice(list(self._open))
        else:
            id_ = self._new()
            self._open[id_] = "", self._where()
        said, where = self._open[id_]
        text = self._random.choice(["x", "yes ", "line\n"])
        if self._random.random() < 0.15:
            self.events.append(piece(id_, ThinkingPart(text=text), offset=len(said), **where))
            return
        self._open[id_] = said + text, where
        if self._random.random() < 0.9:  # else it is lost on the way
            self.events.append(piece(id_, text, offset=len(said), **where))

    def _whole(self) -> None:
        if self._open and self._random.random() < 0.8:
            id_ = self._random.choice(list(self._open))
            said, where = self._open.pop(id_)
        else:
            id_, said, where = self._new(), "whole", self._where()
        if self._random.random() < 0.1:
            said = "otherwise"
        thought = [ThinkingPart(text="hm")] if self._random.random() < 0.2 else []
        self._store(id_, *thought, said, **where)

    def _calls(self) -> None:
        id_ = self._new()
        made = [call(f"k{self._random.randrange(9)}", private=self._random.random() < 0.2) for _ in range(2)]
        known = {part.call_id for each in self.standing if each.content for part in each.content.tool_calls}
        new = {part.call_id: part for part in made if part.call_id not in known}
        if new:
            self._store(id_, *self._random.choice([["so"], []]), *new.values(), **self._where())

    def _results(self) -> None:
        parts = [part for each in self.standing if each.content for part in each.content.parts]
        given = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
        left = [part.call_id for part in parts if isinstance(part, ToolCallPart) and part.call_id not in given]
        if left:
            self._store(self._new(), result(self._random.choice(left), {"n": 1}), **self._where())

    def _crash(self) -> None:
        if self._random.random() < 0.5:
            self._open.clear()
        else:  # the same is said again
            self._open = {id_: ("", where) for id_, (_, where) in self._open.items()}
        since = self._random.randint(2, self._sequence + 1)
        self._store(self._new(), rewind=Rewind(from_sequence=since, invocation_id="i"))

    def _hand_over(self) -> None:
        self._open.clear()
        self._store(self._new(), transfer_to=self._random.choice("abc"), branch=str(self._turn))
        self._turn += 1

    def _state(self) -> None:
        delta = {self._random.choice("xy~/"): self._random.choice([1, None, {"z": 1}])}
        done = self._random.choice([(), (f"{self._turn}/~b",)])
        self._store(self._new(), state_delta=delta, finished=done, **self._where())

    def _fail(self) -> None:
        self._store(self._new(), error=ErrorInfo(code="agent.failed", message="boom"), **self._where())


def plain(messages: Iterable[Wire]) -> list[Any]:
    """What messages say and call, whoever they are of."""
    kept = [{**each, "subagentRunId": "", "content": each.get("content", ""), "name": ""} for each in messages]
    return sorted(kept, key=lambda each: str(each["id"]))


@settings(max_examples=300)
@given(st.integers(0, 2**32), st.integers(1, 60), st.booleans(), st.booleans())
def test_whatever_happens_the_client_has_what_the_log_has(seed: int, length: int, inside: bool, announced: bool) -> None:
    stream, caller = Stream(Random(seed)).play(length), OPERATOR if inside else USERS
    client = Client().take(told(stream.events, caller, announced=announced))
    log = messages_in(stream.standing, Redactor(caller, TREE))
    assert plain(client.messages) == plain(log)
    state: Any = {}
    for each in stream.events:
        state = merge(state, each.actions.state_delta)
    assert client.state == state


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(0, 40))
def test_whoever_was_cut_off_gets_the_same(seed: int, length: int, heard_of: int) -> None:
    """A second stream of the same run, to a client that has a part of the first."""
    stream = Stream(Random(seed)).play(length)
    wires = told(stream.events)
    cut = [wire for wire in wires[: 2 + heard_of] if wire["type"] != "RUN_FINISHED"]
    first = Client().take(cut)
    calls = frozenset(call["id"] for message in first.messages for call in message.get("toolCalls", ()))
    held = ClientState(frozenset(each["id"] for each in first.messages), calls, lambda: first.messages)
    again = Client(first.messages).take(told([each for each in stream.events if not each.partial], held=held))
    kept = {each.id for each in stream.events if not each.partial} | {f"result:k{number}" for number in range(9)}
    # What broke off and is on no record is left as it was heard.
    said = [message for message in again.messages if message["id"] in kept]
    assert plain(said) == plain(messages_in(stream.standing, Redactor(OPERATOR, TREE)))
