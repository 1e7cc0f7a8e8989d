"""A task while it goes on: the pieces, put together, are what is recorded, however they are heard."""

from random import Random

from a2a.types import Part, TaskArtifactUpdateEvent
from hypothesis import given, strategies as st
from logs import event

from turnwise.facts.content import text_content
from turnwise.facts.events import Await, Event, Rewind
from turnwise.gateway.a2a.request import TaskId
from turnwise.gateway.a2a.stream import TaskEvents
from turnwise.gateway.a2a.tasks import is_output

WORDS = st.text(st.sampled_from("ab \n字"), max_size=30)


def said(id_: str, text: str, **fields: object) -> Event:
    return event("a", text, **fields).replace(id=id_, sequence=1)  # type: ignore[arg-type]


def piece(whole: Event, text: str, offset: int | None) -> Event:
    return whole.replace(content=text_content(text), partial=True, offset=offset)


def heard(events: list[Event]) -> dict[str, str]:
    """The artifacts as a client has them in the end, who is told the task anew where that is due; each ends with one last
    chunk.
    """
    narration, texts, closed = TaskEvents(TaskId("s", "m")), dict[str, str](), list[str]()
    for place, each in enumerate(events, 1):
        parts = [Part(text=each.text)] if each.text else []
        is_retraction = not each.partial and narration.is_retraction(each, parts)
        for update in narration.chunk(each) if each.partial else narration.whole(each, parts):
            id_ = update.artifact.artifact_id
            assert update.append == (id_ in texts) or not update.append
            texts[id_] = (texts.get(id_, "") if update.append else "") + "".join(part.text for part in update.artifact.parts)
            closed += [id_] if update.last_chunk else []
        texts = recorded(events[:place]) if is_retraction else texts
    texts = recorded(events) if narration.is_open else texts
    assert len(closed) == len(set(closed))
    return texts


def recorded(events: list[Event]) -> dict[str, str]:
    """The artifacts of the task as it is then."""
    places = [place for place, each in enumerate(events) if each.actions.rewind]
    kept = events[places[-1] :] if places else events
    return {each.id: each.text for each in kept if not each.partial and each.text and is_output(each)}


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
def test_pieces_only_tell_it_sooner(texts: list[str], random: Random) -> None:
    stored = [said(f"e{number}", text) for number, text in enumerate(texts)]
    told = heard([each for whole in stored for each in live(whole, random)])
    assert {id_: text for id_, text in told.items() if text} == {each.id: each.text for each in stored if each.text}


ENDS = st.sampled_from(["as it was said", "changed", "blocked", "asked", "emptied", "never", "begun again"])


@given(st.lists(st.tuples(WORDS, ENDS), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_what_was_heard_is_what_is_on_record(spoken: list[tuple[str, str]], random: Random) -> None:
    """However what was being said ended, and whoever spoke meanwhile."""
    lines = []
    for number, (text, end) in enumerate(spoken):
        *pieces, whole = live(said(f"e{number}", text), random)
        wholes = {
            "changed": said(whole.id, "Other words."),
            "blocked": said(whole.id, "Not that.", blocked_by="guard"),
            "asked": said(whole.id, "Which?", awaits=Await(id="w")),
            "emptied": said(whole.id, ""),
            "begun again": event("a", rewind=Rewind(from_sequence=1, invocation_id="i1")),
        }
        lines.append([*pieces, *([] if end == "never" else [wholes.get(end, whole)])])
    events: list[Event] = []
    while lines := [line for line in lines if line]:
        events.append(random.choice(lines).pop(0))
    assert {id_: text for id_, text in heard(events).items() if text} == recorded(events)


def test_those_who_speak_at_once_are_told_apart() -> None:
    one, other = said("e1", "left side", branch="1/~a"), said("e2", "right side", branch="1/~b")
    mixed = [piece(one, "left", 0), piece(other, "right", 0), piece(one, " side", 4), one, other]
    assert heard(mixed) == {"e1": "left side", "e2": "right side"}


def test_a_piece_that_comes_twice_counts_once_and_one_that_is_missing_waits() -> None:
    whole = said("e1", "abcdef")
    assert heard([piece(whole, "abc", 0), piece(whole, "bcd", 1), whole]) == {"e1": "abcdef"}
    narration = TaskEvents(TaskId("s", "m"))
    assert list(narration.chunk(piece(whole, "def", 3))) == []


def test_a_whole_that_reads_otherwise_takes_the_pieces_place() -> None:
    whole = said("e1", "Something else.")
    (begun,), (told,) = _both(piece(whole, "Some words", 0), whole)
    assert (begun.append, begun.last_chunk) == (False, False)
    assert (told.append, told.last_chunk, told.artifact.parts[0].text) == (False, True, "Something else.")


def _both(first: Event, whole: Event) -> tuple[list[TaskArtifactUpdateEvent], list[TaskArtifactUpdateEvent]]:
    narration = TaskEvents(TaskId("s", "m"))
    return list(narration.chunk(first)), list(narration.whole(whole, [Part(text=whole.text)]))


def test_what_is_no_part_of_the_answer_is_not_told() -> None:
    for other in (
        said("e", "psst", branch="1/>b#1"),
        said("e", "on a task", scope=("t",)),
        said("e", "Which?", awaits=Await(id="w")),
        said("e", "Not that.", blocked_by="guard"),
    ):
        assert heard([other]) == {}
    assert heard([piece(said("e", "psst", branch="1/>b#1"), "psst", 0)]) == {}


def test_a_new_attempt_begins_anew() -> None:
    lost, again = said("e1", "Lost words."), said("e2", "Said again.")
    rewind = event("a", rewind=Rewind(from_sequence=1, invocation_id="i1"))
    told = heard([piece(lost, "Lost", 0), rewind, *live(again, Random(1))])
    assert told == {"e2": "Said again."}
