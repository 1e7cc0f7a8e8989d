"""A response as numbered events: the same ones, however it is heard."""

from random import Random

from hypothesis import given, strategies as st
from logs import call, event

from turnwise.facts.callers import Caller
from turnwise.facts.content import TextPart, text_content
from turnwise.facts.events import Await, Event, Rewind
from turnwise.facts.fact import replaced
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.gateway.openai.responses.response import ResponseId
from turnwise.gateway.openai.responses.schema import ResponseObject
from turnwise.gateway.openai.responses.stream import ResponseEvents, Wire
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.stream import DecisionInfo

NAME = ResponseId("s", "m")
VIEW = Redactor(Caller(id="c", role="admin"), AgentTree([AgentCard(name="a")]))
BEHIND = DecisionInfo(session_id="s", message_id="m")
BLANK = ResponseObject(id=NAME.id, created_at=1, model="turnwise", turnwise=BEHIND)
DONE = replaced(BLANK, status="completed")
WORDS = st.text(st.sampled_from("ab \n字"), max_size=40)


def said(id_: str, text: str, **fields: object) -> Event:
    return event("a", text, **fields).replace(id=id_)  # type: ignore[arg-type]


def piece(whole: Event, text: str, offset: int) -> Event:
    return whole.replace(content=text_content(text), partial=True, offset=offset)


def told(events: list[Event]) -> list[Wire]:
    narration = ResponseEvents(NAME, BLANK, VIEW)
    wires = [*narration.begin(), *(wire for each in events for wire in narration.tell(each)), *narration.end(DONE)]
    assert [wire["sequence_number"] for wire in wires] == list(range(len(wires)))
    return wires


def live(whole: Event, random: Random) -> list[Event]:
    """The pieces of a text and the whole of it, as readers get them who came at any time."""
    text, events, at = whole.text, list[Event](), 0
    while at < len(text):
        end = random.randint(at + 1, len(text))
        if random.random() < 0.8:
            events.append(piece(whole, text[at:end], at))
        at = end
    return [*events, whole]


@given(st.lists(WORDS, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_live_pieces_only_tell_it_sooner(texts: list[str], random: Random) -> None:
    stored = [said(f"e{number}", text) for number, text in enumerate(texts)]
    assert told([each for whole in stored for each in live(whole, random)]) == told(stored)


@given(st.lists(WORDS.filter(str.strip), min_size=2, max_size=3), st.randoms(use_true_random=False))
def test_children_of_a_parallel_agent_are_told_as_the_log_has_them(texts: list[str], random: Random) -> None:
    stored = [said(f"e{number}", text, branch=f"1/~c{number}") for number, text in enumerate(texts)]
    pieces = [each for whole in stored for each in live(whole, random)[:-1]]
    assert told([*pieces, *stored]) == told(stored)


def types(wires: list[Wire]) -> list[str]:
    return [wire["type"].removeprefix("response.") for wire in wires]


def test_a_message_and_a_call() -> None:
    wires = told([said("e1", "Hm."), event("a", call("k1", x=1), awaits=Await(id="k1", kind="tool_result"))])
    assert types(wires) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert (wires[8]["item"]["arguments"], wires[8]["item"]["status"]) == ("", "in_progress")
    assert wires[9]["delta"] == wires[10]["arguments"] == wires[11]["item"]["arguments"] == '{"x":1}'
    assert {wire["output_index"] for wire in wires[2:8]} == {0}
    assert {wire["output_index"] for wire in wires[8:12]} == {1}


def test_thoughts_and_pieces_of_calls_are_not_told() -> None:
    whole = said("e1", "Hm.")
    thought = whole.replace(content=None, partial=True, offset=0)
    asides = [piece(said("e2", "x", branch="1/>a#1"), "x", 0), piece(said("e3", "x", scope=("t",)), "x", 0)]
    assert told([thought, *asides, whole]) == told([whole])


def test_what_breaks_off_is_left_incomplete() -> None:
    """A model that breaks off is asked again, under the id of another event."""
    wires = told([piece(said("e1", ""), "It was a ", 0), piece(said("e2", ""), "It is ", 0), said("e2", "It is so.")])
    done = [wire["item"] for wire in wires if wire["type"] == "response.output_item.done"]
    assert [(item["status"], item["content"][0]["text"]) for item in done] == [
        ("incomplete", "It was a"),
        ("completed", "It is so."),
    ]


def test_a_new_attempt_ends_what_the_last_one_began() -> None:
    again = event("a", rewind=Rewind(from_sequence=2, invocation_id="i1"))
    wires = told([piece(said("e1", ""), "It was a ", 0), again])
    assert types(wires)[-4:] == ["output_text.done", "content_part.done", "output_item.done", "completed"]


def test_a_whole_that_reads_otherwise_replaces_the_pieces() -> None:
    wires = told([piece(said("e1", ""), "The secret is ", 0), said("e1", "Withheld.")])
    assert [wire["text"] for wire in wires if wire["type"] == "response.output_text.done"] == ["Withheld."]
    assert [wire["delta"] for wire in wires if wire["type"] == "response.output_text.delta"] == ["The", " secret", " is"]


def test_words_that_come_between_pieces_are_an_item_of_their_own() -> None:
    whole = said("e1", "one two")
    wires = told([piece(whole, "one t", 0), said("e2", "aside"), piece(whole, "wo", 5), whole])
    texts = {wire["output_index"]: wire["text"] for wire in wires if wire["type"] == "response.output_text.done"}
    assert texts == {0: "one two", 1: "aside"}


def test_other_ends() -> None:
    for status, type_ in (("failed", "failed"), ("incomplete", "incomplete"), ("cancelled", "incomplete")):
        narration = ResponseEvents(NAME, BLANK, VIEW)
        (last,) = narration.end(ResponseObject.model_validate({**dict(BLANK), "status": status}))
        assert (last["type"], last["response"]["status"]) == (f"response.{type_}", status)
    assert ResponseEvents(NAME, BLANK, VIEW).problem("c", "m") == {
        "type": "error",
        "sequence_number": 0,
        "code": "c",
        "message": "m",
        "param": None,
    }


def test_parts_of_one_event_are_one_message() -> None:
    whole = event("a", TextPart(text="one"), TextPart(text="two"))
    assert [wire["text"] for wire in told([whole]) if "text" in wire] == ["one\ntwo"]
