"""Exports labelled decisions as cases, with the conversations before them, in JSON Lines or Parquet (behaviours H2, E4)."""

import hashlib
import io
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime
from functools import partial
from importlib import import_module

from pydantic import JsonValue

from turnwise.access.records import record_store_of
from turnwise.facts.errors import MissingExtra
from turnwise.facts.events import USER, Event
from turnwise.facts.labels import Label
from turnwise.facts.sessions import LAST_REPLY_CHARACTERS, RECENT_MESSAGES, SessionKey
from turnwise.guardrails import personal_data, secrets
from turnwise.guardrails.rules import with_labels
from turnwise.learning.cases import Case, Turn
from turnwise.learning.collect_signals import all_labels
from turnwise.learning.traffic import effective
from turnwise.ports.stores import PAGE_BYTES, SessionStore

_EVENTS = 1_000
_ID_DIGITS = 16

COLUMNS = ("dialogue", "turn", "system", "user", "agent")
"""The dialogue's id; the index in it, from 0; the reply before the message; the message; the right agent, null if unknown."""


async def labelled_cases(store: SessionStore, app: str, default: str, *, since: datetime | None = None) -> AsyncIterator[Case]:
    """Yields a dialogue for each session with labels that count, in the order of the sessions' first label.

    A dialogue begins six messages before the first labelled one, which is what a decision knows of the past, and ends with the
    last labelled one. Unlabelled turns are not scored. The id is a digest, which names neither the user nor the session.

    Args:
        store: The store.
        app: The app.
        default: The default agent. It stands for the label that no agent should have been chosen.
        since: Only decisions made at this time or later.

    Raises:
        ConfigError: The store keeps no labels.
        StoreError: The store cannot be read.
    """
    labels: defaultdict[SessionKey, defaultdict[int, list[Label]]] = defaultdict(lambda: defaultdict(list))
    for each in await all_labels(record_store_of(store).labels, app):
        if since is None or each.decided_at >= since:
            labels[each.key][each.sequence].append(each.label)
    for key, of_session in labels.items():
        counted = {at: label for at, all_ in of_session.items() if (label := effective(all_)) is not None}
        turns = await _turns(store, key, {at: label.agent or default for at, label in counted.items()}) if counted else []
        if turns:
            yield Case(tuple(turns), _id(key))


async def _turns(store: SessionStore, key: SessionKey, expected: Mapping[int, str]) -> list[Turn]:
    """Returns the turns of a session around its labelled messages."""
    turns: list[Turn] = []
    reply, last, done = "", 0, 0
    while last < max(expected):
        events = await store.events(key, after=last, limit=_EVENTS, max_bytes=PAGE_BYTES)
        if not events:
            break
        last = events[-1].sequence or last
        for event in events:
            if event.author != USER:
                reply = event.text[-LAST_REPLY_CHARACTERS:] if _is_reply(event) else reply
            elif event.text.strip():
                agent = expected.get(event.sequence or 0)
                turns.append(Turn(redacted(reply), redacted(event.text), agent))
                reply = ""
                if agent is not None:
                    done = len(turns)
                elif not done:
                    del turns[:-RECENT_MESSAGES]
    return turns[:done]


def _is_reply(event: Event) -> bool:
    return not event.is_private and bool(event.text)


def redacted(text: str) -> str:
    """Returns the text with personal data and keys replaced by their kinds, as the guardrails do it."""
    for find in (partial(personal_data.find, kinds=personal_data.KINDS), secrets.find):
        text = with_labels(text, find)
    return text


def _id(key: SessionKey) -> str:
    return hashlib.sha256("\n".join(key).encode()).hexdigest()[:_ID_DIGITS]


def case_data(case: Case) -> dict[str, JsonValue]:
    """Returns a dialogue as a line of a file of cases."""
    turns: list[JsonValue] = [{"system": turn.system, "user": turn.user, "agent": turn.agent} for turn in case.turns]
    return {"id": case.dialogue, "turns": turns}


def scored(cases: Iterable[Case]) -> int:
    """Returns the number of labelled messages."""
    return sum(turn.agent is not None for case in cases for turn in case.turns)


def parquet(cases: Iterable[Case]) -> bytes:
    """Returns the cases as a Parquet file, with the columns `COLUMNS`.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    try:
        arrow, files = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtra("Writing Parquet files", "parquet") from error
    rows = [(case.dialogue, at, turn.system, turn.user, turn.agent) for case in cases for at, turn in enumerate(case.turns)]
    schema = arrow.schema([(name, arrow.int32() if name == "turn" else arrow.string()) for name in COLUMNS])
    table = arrow.table([[row[at] for row in rows] for at in range(len(COLUMNS))], schema=schema)
    written = io.BytesIO()
    files.write_table(table, written)
    return written.getvalue()
