"""Reports and replays of much traffic: the time and memory of a report on a million decisions, and decisions again per second.

DIR holds `banking77` and `clinc150`. The decisions of some conversations are copied in the database, each with another text,
and get labels of operators, users and signals.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from bench.learning import by_agent
from bench.measure import Figure, progress
from sqlalchemy import Connection, Table, create_engine, insert, select, text

from turnwise import Runner, agent
from turnwise.assemble import load_app
from turnwise.learning.cases import read_cases
from turnwise.learning.replay import places, replay
from turnwise.ports.agent import Agent
from turnwise.stores.sql.app_tables import labels
from turnwise.stores.sql.ids import decision_id, new_id
from turnwise.stores.sql.rows import time_text
from turnwise.stores.sql.store import SqlSessionStore
from turnwise.stores.sql.tables import decisions, sessions
from turnwise.testing.postgres import new_postgres_database

NEEDED = ("banking77/train.jsonl", "clinc150/train.jsonl")
DECISIONS, QUICK_DECISIONS = 1_000_000, 50_000
REPORT_SECONDS, REPORT_MB = 90.0, 500.0
A_SECOND = 1_000.0
"""Decisions that are made again per second and core."""
AGENTS, EXAMPLES = 30, 5
MADE, NOBODY, TURNS = 2_000, 200, 5
"""How many decisions are made, on how many requests of another kind, and in each session. All others are copies of these."""
REPLAY_AGENTS, REPLAY_EXAMPLES, REPLAYED, QUICK_REPLAYED = 100, 15, 10_000, 1_000
SIGNALS, RATINGS, OPERATORS = 0.25, 0.05, 0.02
"""The shares of decisions with labels of these sources."""
RIGHT = 0.85
_BATCH = 10_000
_NEWEST = datetime(2026, 6, 1, tzinfo=UTC)


def figures(data: Path, folder: Path, *, quick: bool) -> list[Figure]:
    """Returns the figures with their bounds."""
    count = QUICK_DECISIONS if quick else DECISIONS
    with progress("Much traffic", 5) as step:
        found = asyncio.run(_replayed(data, folder, QUICK_REPLAYED if quick else REPLAYED))
        step("replay")
        for name in ("SQLite", "PostgreSQL"):
            place = folder / name
            place.mkdir()
            url = f"sqlite:///{place}/traffic.db" if name == "SQLite" else new_postgres_database()
            _write_app(data, place, url)
            _fill(data, place, url, count)
            step(f"{name}: {count:,} decisions")
            found += _reported(name, place, count)
            step(f"{name}: report")
    return found


_APP = """
import json
from pathlib import Path
from turnwise import agent

def made(name, examples):
    @agent(name=name, examples=examples, patterns=[name.split("_")[0]])
    def answer(message: str) -> str:
        return "Done."
    return answer

texts = json.loads((Path(__file__).parent / "examples.json").read_text())

@agent(name="desk", children=[made(name, examples) for name, examples in texts.items()])
def desk(message: str) -> str:
    return "How can I help?"
"""


def _write_app(data: Path, folder: Path, url: str) -> None:
    """Writes an app whose agents are some intents of BANKING77."""
    chosen = dict(list(by_agent(read_cases([data / NEEDED[0]])).items())[:AGENTS])
    (folder / "examples.json").write_text(json.dumps({name: texts[:EXAMPLES] for name, texts in chosen.items()}))
    (folder / "scale_agents.py").write_text(_APP)
    (folder / "turnwise.yaml").write_text(yaml.safe_dump({"app": "scale", "root": "scale_agents:desk", "store": url}))


def _fill(data: Path, folder: Path, url: str, count: int) -> None:
    """Makes some decisions, and copies them with other texts and times, and with labels."""
    chance = random.Random(28)
    spoken = list(by_agent(read_cases([data / NEEDED[0]])).values())[:AGENTS]
    texts = chance.sample([text for all_ in spoken for text in all_[EXAMPLES:]], MADE - NOBODY)
    texts += chance.sample([text for all_ in by_agent(read_cases([data / NEEDED[1]])).values() for text in all_], NOBODY)
    chance.shuffle(texts)
    asyncio.run(_talk(folder, texts))
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        made = _Made.read(connection)
        names = sorted({row["agent"] for row in made.decisions})
        for copy in range(1, count // len(made.decisions)):
            _copy(connection, made, copy, names, chance)
    with engine.connect() as connection:
        connection.execute(text("ANALYZE"))
        connection.commit()
    engine.dispose()
    # A command in another process imports the app's module from the folder itself.
    sys.modules.pop("scale_agents", None)


async def _talk(folder: Path, texts: list[str]) -> None:
    app = load_app(folder / "turnwise.yaml")
    for number, each in enumerate(texts):
        session = number // TURNS
        await (await app.runner.start(each, user=f"user {session % 100}", session=f"s{session}")).result()
    await app.runner.close()


class _Made(NamedTuple):
    """The rows to copy."""

    sessions: list[dict[str, Any]]
    decisions: list[dict[str, Any]]

    @classmethod
    def read(cls, connection: Connection) -> "_Made":
        return cls(_rows(connection, sessions), _rows(connection, decisions))


def _rows(connection: Connection, table: Table) -> list[dict[str, Any]]:
    return [dict(row._mapping) for row in connection.execute(select(table))]


def _copy(connection: Connection, made: _Made, copy: int, names: list[str], chance: random.Random) -> None:
    """Copies all sessions with their decisions, an hour earlier than those of the copy before."""
    ids = {row["number"]: row["session_id"] for row in made.sessions}
    moved = [row | {"number": row["number"] + copy, "session_id": f"{row['session_id']}-{copy}"} for row in made.sessions]
    copied, labelled = list[dict[str, Any]](), list[dict[str, Any]]()
    for number, row in enumerate(made.decisions):
        at = _NEWEST - timedelta(hours=copy, seconds=number)
        new = row | {"session": row["session"] + copy, "id": decision_id(at, number), "created_at": time_text(at)}
        new |= {"text": f"{row['text']} {copy}", "invocation_id": f"i-{copy}-{number}"}
        found = list(_labels(new, f"{ids[row['session']]}-{copy}", names, chance))
        # The operators' label comes last.
        copied.append(new | {"label": (found[-1]["label"] or "") if found else None})
        labelled += found
    for table, rows in ((sessions, moved), (decisions, copied), (labels, labelled)):
        for start in range(0, len(rows), _BATCH):
            connection.execute(insert(table), rows[start : start + _BATCH])


def _labels(row: dict[str, Any], session: str, names: list[str], chance: random.Random) -> Iterator[dict[str, Any]]:
    """Yields the labels of a decision."""
    right = row["agent"] if chance.random() < RIGHT else chance.choice(names)
    same = ("owner", "session", "sequence", "app", "user_id", "invocation_id", "agent", "method", "confidence", "outcome")
    facts = {name: row[name] for name in (*same, "fingerprint")} | {"session_id": session, "decided_at": row["created_at"]}
    for source, author, share in (("signal", "", SIGNALS), ("user", row["user_id"], RATINGS), ("operator", "ada", OPERATORS)):
        if chance.random() < share:
            is_random = source == "operator" and chance.random() < 0.1
            yield facts | {
                "source": source,
                "author": author,
                "id": new_id(),
                "label": right,
                "unsure": False,
                "weight": 0.7 if source == "signal" else 1.0,
                "labelled_at": row["created_at"],
                "picked": "random" if is_random else None,
                "probability": 0.01 if is_random else None,
                "note": "",
            }


# The system counts to a new process what the one before it had, so the peak is that of its own memory.
_COMMAND = """
import re
from turnwise.cli.app import main
try:
    main()
finally:
    print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


def _reported(name: str, folder: Path, count: int) -> list[Figure]:
    """Makes the page in a new process."""
    command = [sys.executable, "-c", _COMMAND, "decisions", "report", "--limit", str(count), "--output", "report.html"]
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    said = process.stdout.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    if status or f"{count:,} decisions" not in said:
        raise RuntimeError(f"The report failed: {said}")
    seconds, cpu, size = time.perf_counter() - began, used.ru_utime + used.ru_stime, int(said.split()[-1]) * 1024 / 1e6
    what = f"{name}: report of {count:,} decisions"
    return [
        Figure(f"{what}, s (CPU)", f"{seconds:.0f} ({cpu:.0f})", "", f"≤ {REPORT_SECONDS:g}", seconds <= REPORT_SECONDS),
        Figure(f"{what}, memory, MB", f"{size:,.0f}", "", f"≤ {REPORT_MB:g}", size <= REPORT_MB),
    ]


async def _replayed(data: Path, folder: Path, count: int) -> list[Figure]:
    """Makes decisions of conversations again, twice: the second time all texts were seen before."""
    spoken = dict(list(by_agent(read_cases([data / NEEDED[1]])).items())[:REPLAY_AGENTS])
    desk = _desk({name: texts[:REPLAY_EXAMPLES] for name, texts in spoken.items()})
    runner = Runner(desk, app="scale", store=SqlSessionStore(f"sqlite:///{folder}/replay.db"))
    try:
        texts = [text for all_ in spoken.values() for text in all_[REPLAY_EXAMPLES:]]
        random.Random(28).shuffle(texts)
        await runner.cascade.prepare()
        if runner.cascade.meaning is not None:
            await runner.cascade.meaning.fitted()
        for number in range(count):
            session = f"s{number // TURNS}"
            await (
                await runner.start(texts[number % len(texts)], user=f"user {number // TURNS % 100}", session=session)
            ).result()
        wanted = await places(runner.store, "scale", limit=count)
        rates, equal = [], 0
        for _ in range(2):
            began, equal = time.process_time(), 0
            async for each in replay(runner.store, runner.cascade, wanted):
                equal += each.is_equal
            rates.append(count / (time.process_time() - began))
    finally:
        await runner.close()
    what = f"{count:,} decisions made again, {REPLAY_AGENTS} agents with {REPLAY_EXAMPLES} examples"
    return [
        Figure(f"{what}: a second and core, texts not seen before", f"{rates[0]:,.0f}"),
        Figure(f"{what}: a second and core", f"{rates[1]:,.0f}", "", f"≥ {A_SECOND:,.0f}", rates[1] >= A_SECOND),
        Figure(f"{what}: equal", f"{equal:,}", "", f"{count:,}", equal == count),
    ]


def _desk(examples: dict[str, list[str]]) -> Agent:
    def made(name: str) -> Agent:
        @agent(name=name, examples=examples[name])
        def answer() -> str:
            return "Done."

        return answer

    @agent(name="desk", children=[made(name) for name in examples])
    def desk() -> str:
        return "How can I help?"

    return desk


def missing(data: Path) -> list[str]:
    """Returns the files that the benchmark needs and that are not in the folder."""
    return [name for name in NEEDED if not (data / name).is_file()]
