"""What must hold of the logs and records, whatever died. Every check gives what is wrong, one line each."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from survival_play.agents import IN_STEPS, STEPS, TRAFFIC
from survival_play.logs import Log, by_user
from survival_play.records import Records, sent
from turnwise import Event

ENDS = {"poison": "limit:attempts"}
"""How messages end that do not end `completed`."""
_MAKER = re.compile(r"^[a-z]+-(p\d+)-")

Lines = Sequence[dict[str, Any]]


class Findings(NamedTuple):
    """The logs of a store, and what its processes wrote down."""

    logs: Sequence[Log]
    sends: Lines
    acks: Lines
    results: Lines
    troubles: Lines
    errors: Lines
    work: Lines
    ends: Lines
    kills: Lines
    refusals: Lines
    returns: Lines


def findings(logs: Sequence[Log], records: Records) -> Findings:
    kinds = (name for name in Findings._fields if name != "logs")
    return Findings(logs, **{kind: records.read(kind) for kind in kinds})


def maker(id_: str) -> str | None:
    """The process that made an id; None for a message's."""
    found = _MAKER.match(id_)
    return found[1] if found else None


def invocations(log: Log) -> dict[str, list[Event]]:
    """All stored events by invocation, in order."""
    found: dict[str, list[Event]] = defaultdict(list)
    for event in log.stored:
        found[event.invocation_id].append(event)
    return found


def message_of(events: Sequence[Event]) -> str:
    """The id of the message that these events of one invocation answer: our messages say nothing else."""
    return next((event.text for event in events if by_user(event)), "?")


def lost(found: Findings) -> list[str]:
    """Acknowledged messages that the store does not know."""
    accepted = {id_ for log in found.logs for id_ in log.accepted}
    return sorted({f"{ack['id']}: acknowledged, and gone" for ack in found.acks if ack["id"] not in accepted})


def unanswered(found: Findings) -> list[str]:
    """Accepted messages that are not visible exactly once with exactly one visible end, of the kind they are to have."""
    wrong = []
    for log in found.logs:
        asked = Counter(event.text for event in log.visible if by_user(event))
        ends: dict[str, list[str]] = defaultdict(list)
        names = {id_: message_of(events) for id_, events in invocations(log).items()}
        for event in log.visible:
            if event.actions.end:
                ends[names[event.invocation_id]].append(event.actions.end.reason)
        for id_ in {*log.accepted, *asked, *ends}:
            if asked[id_] != 1 or ends[id_] != [ENDS.get(sent(id_).kind, "completed")]:
                wrong.append(f"{id_}: asked {asked[id_]} times, ended {ends[id_]}")
    return wrong


def gaps(found: Findings) -> list[str]:
    """Sequence numbers that are missing, or events that are there twice."""
    wrong = []
    for log in found.logs:
        numbers = [event.sequence for event in log.stored]
        if numbers != list(range(1, log.last_sequence + 1)):
            wrong.append(f"{log.key.id}: {len(numbers)} events, numbered {numbers[:3]}…{numbers[-3:]}")
        if len({event.id for event in log.stored}) != len(log.stored):
            wrong.append(f"{log.key.id}: an event's id is there twice")
    return wrong


def disorder(found: Findings) -> list[str]:
    """Messages that stand in the log in another order than they were accepted in, or were sent one after another."""
    first_sent: dict[str, float] = {}
    first_ack: dict[str, float] = {}
    for line in found.sends:
        first_sent.setdefault(line["id"], line["time"])
    for line in found.acks:
        first_ack.setdefault(line["id"], line["time"])
    wrong = []
    for log in found.logs:
        asked = [event.text for event in log.visible if by_user(event)]
        if asked != log.accepted:
            place = next(i for i, (a, b) in enumerate(zip([*asked, "-"], [*log.accepted, "-"], strict=False)) if a != b)
            wrong.append(f"{log.key.id}: accepted {log.accepted[place : place + 3]}, asked {asked[place : place + 3]}")
        earliest = float("inf")
        for id_ in reversed(asked):
            if first_sent.get(id_, 0.0) > earliest:
                wrong.append(f"{id_}: sent after a later one was acknowledged")
            earliest = min(earliest, first_ack.get(id_, earliest))
    return wrong


def interleavings(found: Findings) -> list[str]:
    """Events between a message and its end that belong to another invocation; hidden ones count too."""
    wrong = []
    for log in found.logs:
        for events in (log.visible, log.stored):
            open_ = None
            for event in events:
                begins = by_user(event)
                if begins == (open_ is not None) or (open_ not in (None, event.invocation_id)):
                    wrong.append(f"{log.key.id}: event {event.sequence} inside another answer")
                open_ = None if event.actions.end else event.invocation_id
    return wrong


def wrong_words(found: Findings) -> list[str]:
    """Answers whose visible words are not what the agents say once, or not what callers were given."""
    said: dict[str, list[str]] = {}
    wrong = []
    for log in found.logs:
        steps = recorded_steps(log)
        for id_, events in _visible_answers(log).items():
            said[id_] = [event.text for event in events if not by_user(event) and event.text]
            kind = sent(id_).kind
            if kind in TRAFFIC:
                expected = _words(id_, kind, [str(steps.get((id_, step))) for step in STEPS.get(kind, ())])
                if said[id_] != expected:
                    wrong.append(f"{id_}: said {said[id_]}")
    for result in found.results:
        if result["text"] != "\n".join(said.get(result["id"], [])):
            wrong.append(f"{result['id']}: a caller in {result['process']} was told {result['text']!r}")
    return wrong


def _visible_answers(log: Log) -> dict[str, list[Event]]:
    names = {id_: message_of(events) for id_, events in invocations(log).items()}
    found: dict[str, list[Event]] = defaultdict(list)
    for event in log.visible:
        found[names[event.invocation_id]].append(event)
    return found


def _words(id_: str, kind: str, tokens: list[str]) -> list[str]:
    if kind == "stepped":
        return [f"stepped {id_} {' '.join(tokens)}"]
    if kind == "talker":
        return [f"one {id_}", f"two {id_}", f"three {id_}", f"closed {id_} {tokens[0]}"]
    return [f"counting {id_}", f"counted {id_}"] if kind == "counting" else [f"{kind} {id_}"]


def miscounted(found: Findings) -> list[str]:
    """Sessions whose state does not count what was answered."""
    wrong = []
    for log in found.logs:
        answers = sum(sent(id_).kind == "counting" for id_ in log.accepted)
        counted = (log.state.get("counted", 0), log.state.get("answered", 0))
        if counted != (answers, answers):
            wrong.append(f"{log.key.id}: {answers} messages, the state says {counted}")
    return wrong


def recorded_steps(log: Log) -> dict[tuple[str, str], Any]:
    """The first recorded result of every step, by message and key."""
    return {place: record.value for place, record in _first_records(log).items()}


class _Record(NamedTuple):
    """The first record of a step: its value, when it was made, and who had made attempts at the message by then."""

    value: Any
    time: float
    makers: list[str]


def _first_records(log: Log) -> dict[tuple[str, str], _Record]:
    found: dict[tuple[str, str], _Record] = {}
    for id_, events in invocations(log).items():
        for place, event in enumerate(events):
            for step in event.actions.steps:
                makers = _attempts(id_, events[: place + 1])
                record = _Record(step.value, event.created_at.timestamp(), makers)
                found.setdefault((message_of(events), step.key.rpartition(":")[2]), record)
    return found


class Repeats(NamedTuple):
    """How often work was done again.

    recorded: inside steps whose result was stored, which must not be. unrecorded: inside steps, because the process died
    between the work and its record. late: inside steps, by a process that stood still while another one took over, and did
    not know it yet. outside: outside of steps.
    """

    recorded: list[str]
    unrecorded: int
    late: int
    outside: int


def repeats(found: Findings) -> Repeats:
    records = {place: record for log in found.logs for place, record in _first_records(log).items()}
    lines: dict[tuple[str, str], Lines] = defaultdict(list)
    for line in found.work:
        lines[line["id"], line["place"]] = [*lines[line["id"], line["place"]], line]
    recorded: list[str] = []
    unrecorded = late = outside = 0
    for place, done in lines.items():
        if place[1] not in IN_STEPS:
            outside += len(done) - 1
            continue
        record = records.get(place)
        after = [line["process"] for line in done if record and line["time"] > record.time]
        superseded = [name for name in after if record and name in record.makers[:-1]]
        late += len(superseded)
        wrong = len(after) - len(superseded)
        recorded += [f"{place[0]}: step {place[1]!r} was done again after it was recorded"] * wrong
        unrecorded += len(done) - len(after) - 1
    return Repeats(recorded, unrecorded, late, outside)


def misread(log: Log, id_: str, seen: Sequence[tuple[int, str]], *, several_attempts: bool = False) -> list[str]:
    """What a reader of that message's answer saw instead of its stored events, each once and in order.

    Of several attempts it sees as much as was there when it looked: the visible events at least.
    """
    stored = next(events for events in invocations(log).values() if message_of(events) == id_)
    visible = [event for event in log.visible if event.invocation_id == stored[0].invocation_id]
    known, wanted = ([(event.sequence or 0, event.id) for event in events] for events in (stored, visible))
    got = [(sequence, event_id) for sequence, event_id in seen]
    whole = set(wanted) <= set(got) if several_attempts else got == wanted
    if whole and got == sorted(set(got)) and set(got) <= set(known):
        return []
    missing, foreign = sorted(set(wanted) - set(got)), sorted(set(got) - set(known))
    return [f"{id_}: a reader saw {len(got)} events of {len(wanted)}; missing {missing[:3]}, foreign {foreign[:3]}"]


class Waits(NamedTuple):
    """What happened to messages whose process was killed while it answered them.

    seconds: from the kill to the stored answer. from_living: how many attempts were superseded although their process was
    not killed: it stood still, or could not renew its claim in time. attempts: the most attempts of one message.
    """

    seconds: list[float]
    from_living: int
    attempts: int


def waits(found: Findings) -> Waits:
    killed = {kill["killed"]: float(kill["at"]) for kill in found.kills}
    ended: dict[str, float] = {}
    for line in found.ends:
        ended.setdefault(line["invocation"], line["time"])
    seconds, from_living, most = [], 0, 1
    for log in found.logs:
        for id_, events in invocations(log).items():
            makers = _attempts(id_, events)
            most = max(most, len(makers))
            from_living += sum(name not in killed for name in makers[:-1])
            ends = [event for event in events if event.actions.end]
            before = [killed[name] for name in makers[:-1] if name in killed]
            if before and ends:
                # Its process may have died before it could write down that it had answered.
                seconds.append(ended.get(id_, ends[-1].created_at.timestamp()) - max(before))
    return Waits(sorted(seconds), from_living, most)


def answer_seconds(found: Findings) -> list[float]:
    """From the first acknowledgement of each message to its stored answer, sorted; 0 for answers that came before it."""
    first_ack: dict[str, float] = {}
    for line in found.acks:
        first_ack.setdefault(line["id"], line["time"])
    seconds = []
    for log in found.logs:
        for events in invocations(log).values():
            ends = [event.created_at.timestamp() for event in events if event.actions.end]
            if ends and (id_ := message_of(events)) in first_ack:
                seconds.append(max(0.0, ends[-1] - first_ack[id_]))
    return sorted(seconds)


def seconds_after_return(found: Findings) -> list[float]:
    """From each return of the engine to the stored answer of each message that had no answer then, sorted."""
    asked: dict[str, float] = {}
    for line in found.acks:
        asked.setdefault(line["id"], line["time"])
    ended = {
        message_of(events): ends[-1].created_at.timestamp()
        for log in found.logs
        for events in invocations(log).values()
        if (ends := [event for event in events if event.actions.end])
    }
    return sorted(
        ended[id_] - line["time"]
        for line in found.returns
        for id_, at in asked.items()
        if id_ in ended and at <= line["time"] < ended[id_]
    )


def _attempts(invocation_id: str, events: Sequence[Event]) -> list[str]:
    """Which process made each attempt, in order."""
    makers: dict[int, str] = {1: maker(invocation_id) or "?"}
    for event in events:
        name = maker(event.id)
        if name is not None:
            makers.setdefault(event.attempt, name)
    return [makers[attempt] for attempt in sorted(makers)]


CHECKS: dict[str, Callable[[Findings], list[str]]] = {
    "acknowledged messages lost": lost,
    "accepted messages without exactly one answer": unanswered,
    "gaps in sequences": gaps,
    "messages out of order": disorder,
    "interleavings": interleavings,
    "answers with wrong words": wrong_words,
    "states that miscount": miscounted,
    "recorded work done again": lambda found: repeats(found).recorded,
    "failures that are no typed errors": lambda found: [str(line) for line in found.errors],
}


def broken(found: Findings) -> Iterator[str]:
    """All that is wrong, each line with the name of its check."""
    for name, check in CHECKS.items():
        for line in check(found):
            yield f"{name}: {line}"
