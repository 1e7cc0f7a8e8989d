"""Real conversations through the runner: one agent for each service, found by patterns and kept by resuming.

The data set is SGD, as `sgd/dev.jsonl` below the folder given with --data. The patterns are what anyone would write
down for these services, without looking at the dialogues.
"""

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

from bench.measure import Figure, exactly, progress

from turnwise import AgentContext, MessageContext, Runner, SqlSessionStore, agent
from turnwise.facts.events import USER
from turnwise.ports.agent import Agent

DIALOGUES = 200
PATTERNS = {
    "Banks": [r"\b(bank|balance|savings|checking)\b", r"\btransfer (some |the )?money\b"],
    "Buses": [r"\bbus(es)?\b"],
    "Calendar": [r"\b(calendar|meetings?)\b", r"\bmy schedule\b"],
    "Events": [r"\b(events?|concerts?|games?|match(es)?)\b"],
    "Flights": [r"\b(flights?|fly|flying|airlines?)\b"],
    "Homes": [r"\b(apartments?|flats?|homes?|houses?)\b"],
    "Hotels": [r"\b(hotels?|motels?|accommodations?)\b", r"\b(place|room) to stay\b"],
    "Media": [r"\b(watch|stream) (a |the |some )?(movies?|films?)\b", r"\bstream\b"],
    "Movies": [r"\b(cinemas?|movie theat(er|re)s?|movie tickets?)\b"],
    "Music": [r"\b(songs?|music|albums?)\b"],
    "RentalCars": [r"\b(rental cars?|car rental|rent a car|hire a car)\b"],
    "Restaurants": [r"\b(restaurants?|place to eat|somewhere to eat|dinner|lunch)\b"],
    "RideSharing": [r"\b(cabs?|taxis?|rides?)\b"],
    "Services": [r"\b(dentists?|doctors?|therapists?|stylists?|hair ?cuts?|salons?)\b"],
    "Travel": [r"\b(attractions?|sightseeing|museums?|tourist|places to visit)\b"],
    "Weather": [r"\b(weather|forecast|temperature|raining|rain)\b"],
}


class Turn(NamedTuple):
    """A message, what the data says next, and who should take the message (None: not scored)."""

    user: str
    reply: str
    agent: str | None


class Tally:
    """Counts of one run over the dialogues."""

    def __init__(self) -> None:
        self.messages = self.answered = self.recorded = 0
        self.scored = self.right = self.switches = self.switched = self.firsts = self.first_right = 0

    def score(self, wanted: str | None, previous: str | None, chosen: str) -> None:
        if wanted is None:
            return
        right = int(chosen == wanted)
        self.scored, self.right = self.scored + 1, self.right + right
        if previous is None:
            self.firsts, self.first_right = self.firsts + 1, self.first_right + right
        elif previous != wanted:
            self.switches, self.switched = self.switches + 1, self.switched + right


async def dialogues(data: Path, folder: Path) -> list[Figure]:
    """The first 200 dialogues: nothing lost, and who was chosen as it is."""
    conversations = read(data / "sgd" / "dev.jsonl")
    runner = Runner(reception(), app="bench", store=SqlSessionStore(f"sqlite:///{folder / 'dialogues.db'}"))
    tally, began = Tally(), time.perf_counter()
    with progress("Dialogues", len(conversations)) as step:
        for name, turns in conversations.items():
            await converse(runner, name, turns, tally)
            step(name)
    seconds = time.perf_counter() - began
    await runner.close()
    return [
        exactly(f"SGD, {len(conversations)} dialogues: messages answered as they should", tally.answered, tally.messages),
        exactly("messages and answers in the logs", tally.recorded, 2 * tally.messages),
        Figure("messages a second, one at a time", f"{tally.messages / seconds:,.0f}"),
        Figure("right agent, by patterns and resuming", _share(tally.right, tally.scored)),
        Figure("of first messages", _share(tally.first_right, tally.firsts)),
        Figure("of messages that change the service", _share(tally.switched, tally.switches)),
    ]


def read(path: Path) -> dict[str, list[Turn]]:
    """Conversations by id, in the file's order."""
    conversations = {}
    with path.open(encoding="utf-8") as lines:
        for _, line in zip(range(DIALOGUES), lines, strict=False):
            dialogue: dict[str, Any] = json.loads(line)
            turns = dialogue["turns"]
            replies = [turn["system"] for turn in turns[1:]] + ["Goodbye."]
            conversations[dialogue["id"]] = [
                Turn(turn["user"], reply, turn["agent"]) for turn, reply in zip(turns, replies, strict=True)
            ]
    return conversations


def reception() -> Agent:
    """A root with one agent for each service; whoever is chosen says what the data says next."""

    @agent(name="reception", children=[service(name, patterns) for name, patterns in PATTERNS.items()])
    async def root(context: AgentContext) -> str:
        return reply_of(context)

    return root


def service(name: str, patterns: list[str]) -> Agent:
    @agent(name=name, patterns=patterns)
    async def answer(context: AgentContext) -> str:
        return reply_of(context)

    return answer


def reply_of(context: AgentContext) -> str:
    return str(context.message_context.attributes["reply"])


async def converse(runner: Runner, name: str, turns: list[Turn], tally: Tally) -> None:
    previous: str | None = None
    for turn in turns:
        context = MessageContext(attributes={"reply": turn.reply})
        invocation = await runner.start(turn.user, user=USER, session=name, context=context)
        result = await invocation.result()
        tally.messages += 1
        if result.selection is not None and result.text == turn.reply:
            tally.answered += 1
            tally.score(turn.agent, previous, result.selection.agent)
        previous = turn.agent or previous
    said = [event.text for event in await runner.store.events(runner.key(USER, name)) if event.text]
    if said == [text for turn in turns for text in (turn.user, turn.reply)]:
        tally.recorded += len(said)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} % of {whole:,}" if whole else "none"
