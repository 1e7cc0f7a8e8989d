"""Real conversations through the whole front door: SGD's services as agents, patterns written by hand plus resume.

    python bench/dialogues.py --data DIR [--dialogues 200]

DIR holds `sgd/dev.jsonl`: dialogues of turns {system, user, agent}. Each chosen agent answers with the dialogue's next line,
so that the head holds what a user would have read. Prints how many messages were answered, recorded and lost, and how many
reached the right agent: over all turns, where the agent changes (switch), and where it stays.
"""

import argparse
import asyncio
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track
from rich.table import Table

from turnwise import MessageContext, Runner, SqlSessionStore, agent
from turnwise.agents.function import FunctionAgent

FIND = r"(find|search|look|looking|need|want|book|reserve|get|help|show|like|any|see|check)"
PATTERNS: dict[str, list[tuple[str, float]]] = {
    "Banks": [
        (r"\b(transfer|send)\b.*\b(dollars?|money|account|\$)", 0.95),
        (r"\b(make|do) a (money )?transfer\b", 0.95),
        (r"\b(my|the|account|checking|savings) balance\b|\bhow much (money )?(do|have) i\b", 0.95),
    ],
    "Buses": [(r"\bbus(es)?\b", 0.95)],
    "Calendar": [
        (r"\b(calendar|schedule)\b", 0.92),
        (r"\b(am i|i am|i'm|when.* i.*) (free|available)\b|\bmy available\b", 0.95),
    ],
    "Events": [
        (r"\bevents?\b", 0.85),
        (r"\b(concerts?|sports?|game|games|tickets? (to|for) (see|the))\b", 0.85),
    ],
    "Flights": [(r"\b(flights?|fly|plane|airline|airport)\b", 0.95)],
    "Homes": [(r"\b(apartments?|bedrooms?|property|properties|place to live|rent a (home|house|unit))\b", 0.95)],
    "Hotels": [(r"\b(hotels?|motel|place to stay|somewhere to stay|rooms? (for|in)|accommodations?)\b", 0.95)],
    "Media": [
        (r"\b(watch|stream|play)\b.*\b(movies?|film)\b.*\b(online|at home)\b", 0.95),
        (r"\bmovies?\b.*\bdirected by\b", 0.92),
        (r"\bsubtitles?\b", 0.92),
    ],
    "Movies": [
        (r"\b(movie|show) ?times?\b|\btheat(er|re)s?\b|\bwhat time\b.*\bmovie\b", 0.95),
        (r"\bmovie tickets?\b|\bgo (out )?to (a|the) movies?\b|\bnow playing\b|\bplaying (at|in|near)\b", 0.92),
    ],
    "Music": [(r"\b(songs?|music|album|tune|tracks?)\b", 0.95)],
    "RentalCars": [
        (r"\b(rental cars?|rent a car|car rental|cars? to rent|rent(ing)? a|a car|(compact|standard|full-size) car)\b", 0.92)
    ],
    "Restaurants": [
        (r"\b(restaurants?|eat|dine|dinner|lunch|food|cuisine|table)\b", 0.92),
    ],
    "RideSharing": [(r"\b(cab|taxi|uber|lyft|ride)\b", 0.95)],
    "Services": [
        (
            r"\b(dentists?|doctors?|salons?|stylists?|hair ?cut|therapist|psychologist|physician|gynecologist|practitioner)\b",
            0.95,
        ),
    ],
    "Travel": [(r"\b(attractions?|things to do|places? to (visit|go)|sightseeing|museums?|tourist|sights)\b", 0.95)],
    "Weather": [(r"\b(weather|forecast|rain|temperature|humid(ity)?|windy?)\b", 0.95)],
}


class Scores(NamedTuple):
    """How the turns went; a turn is scored when the data says who should take it."""

    answered: int
    recorded: int
    lost: int
    right: Counter[str]
    seen: Counter[str]
    methods: Counter[str]


def front_door() -> FunctionAgent:
    """One agent for each service below a host that takes what no pattern and no resume decides."""

    def service(name: str) -> FunctionAgent:
        @agent(name=name, patterns=[{"regex": regex, "confidence": sure} for regex, sure in PATTERNS[name]])
        async def answers(context: Any) -> str:
            return str(context.message_context.attributes["reply"])

        return answers

    @agent(name="host", resume="never", children=[service(name) for name in sorted(PATTERNS)])
    async def host(context: Any) -> str:
        return str(context.message_context.attributes["reply"])

    return host


async def converse(runner: Runner, dialogue: dict[str, Any], scores: Scores) -> Scores:
    """One dialogue as one session, on the system's own history."""
    turns, previous, said = dialogue["turns"], None, []
    answered = 0
    for turn, following in zip(turns, [*turns[1:], {"system": "You are welcome."}], strict=True):
        context = MessageContext(attributes={"reply": following["system"] or "Yes?"})
        invocation = await runner.start(turn["user"], user="sgd", session=dialogue["id"], context=context)
        result = await invocation.result()
        answered += bool(result.text)
        said += [turn["user"], result.text]
        assert result.selection is not None
        scores.methods[result.selection.method] += 1
        if turn["agent"] is None:
            continue
        kind = "stay" if previous in (None, turn["agent"]) else "switch"
        kind = "first" if previous is None else kind
        for group in ("all", kind):
            scores.seen[group] += 1
            scores.right[group] += result.selection.agent == turn["agent"]
        previous = turn["agent"]
    stored = [event.text for event in await runner.store.events(runner.key("sgd", dialogue["id"])) if event.content]
    lost = sum((Counter(said) - Counter(stored)).values())
    return scores._replace(answered=scores.answered + answered, recorded=scores.recorded + len(stored), lost=scores.lost + lost)


async def main(data: Path, count: int) -> None:
    console = Console()
    with (data / "sgd" / "dev.jsonl").open() as lines:
        dialogues = [json.loads(line) for _, line in zip(range(count), lines, strict=False)]
    scores = Scores(0, 0, 0, Counter(), Counter(), Counter())
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(front_door(), store=SqlSessionStore(f"sqlite:///{folder}/sgd.db"))
        for dialogue in track(dialogues, "conversations", console=Console(stderr=True), transient=True):
            scores = await converse(runner, dialogue, scores)
        await runner.close()
    table = Table("turns", "answered", "recorded", "lost", title=f"{len(dialogues)} dialogues")
    turns = sum(len(dialogue["turns"]) for dialogue in dialogues)
    table.add_row(str(turns), str(scores.answered), str(scores.recorded), str(scores.lost))
    console.print(table)
    accuracy = Table("turns", "right", "of", "%", title="reached the right agent, on the system's own history")
    for group in ("all", "first", "stay", "switch"):
        share = 100 * scores.right[group] / max(1, scores.seen[group])
        accuracy.add_row(group, str(scores.right[group]), str(scores.seen[group]), f"{share:.1f}")
    console.print(accuracy)
    console.print("decided by:", ", ".join(f"{method} {n}" for method, n in scores.methods.most_common()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--dialogues", type=int, default=200)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.data, arguments.dialogues))
