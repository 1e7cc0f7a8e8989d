"""Turns compared with the hand-written floor: by length of the log, with transfers, concurrently, and how much they store."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import pairwise

from bench import scene
from bench.measure import (
    Cost,
    Figure,
    Work,
    each,
    exactly,
    fsync_ms,
    in_turns,
    progress,
    ratio_at_least,
    ratio_at_most,
    wall_and_cpu,
)
from bench.sides import Sides

from turnwise.facts.events import USER

CPU_GROWTH, CPU_MS, WALL_RATIO, RATE_RATIO = 1.2, 4.0, 2.0, 0.6
SESSIONS, TURNS_EACH, AT_ONCE = 100, 10, 20


async def by_length(sides: Sides) -> list[Figure]:
    """CPU and wall time of a turn, by the number of earlier events."""
    sizes, rounds = sides.plan.sizes, sides.plan.rounds
    # The floor on long logs comes last: its reads evict everything else from the processor's caches.
    works: dict[str, Work] = {f"turnwise {size}": sides.turns(size) for size in sizes}
    works[f"floor {sizes[0]}"] = sides.floor_turns(sizes[0])
    long = {f"floor {size}": sides.floor_turns(size) for size in sizes[1:]}
    with progress("Turns by length", (len(works) + len(long)) * (rounds + 1)) as step:
        costs = await in_turns(works, rounds, step) | await in_turns(long, rounds, step)
    ours = [costs[f"turnwise {size}"] for size in sizes]
    floors = [costs[f"floor {size}"] for size in sizes]
    return [
        Figure("one fsync on this disk, ms (a turn waits for two)", f"{fsync_ms(sides.path.parent):.2f}"),
        *(
            Figure(f"turn after {size:,} events, wall / CPU ms", wall_and_cpu(cost), wall_and_cpu(floor))
            for size, cost, floor in zip(sizes, ours, floors, strict=True)
        ),
        ratio_at_most("its CPU growth, first to last", ours[-1].cpu / ours[0].cpu, CPU_GROWTH, floors[-1].cpu / floors[0].cpu),
        ratio_at_most("its wall beside the floor's, shortest log", ours[0].wall / floors[0].wall, WALL_RATIO),
        Figure("its CPU ms, dearest", f"{dearest(ours):.2f}", bound=f"≤ {CPU_MS:g}", kept=dearest(ours) <= CPU_MS),
    ]


def dearest(costs: list[Cost]) -> float:
    return max(cost.cpu for cost in costs)


async def hand_overs(sides: Sides) -> list[Figure]:
    """A turn with a transfer, and the next one, which resumes the new agent; on a short and on a long log."""
    sizes = (1_000, sides.plan.sizes[-1])
    works: dict[str, Work] = {}
    for size in sizes:
        await sides.seed(f"hand-over-{size}", size)
        # Rounds run forwards and backwards: billing must be the active agent before the first turn that resumes it.
        await sides.answer(f"hand-over-{size}", scene.HAND_OVER)
        for kind, message in (("handed over", scene.HAND_OVER), ("resumed", scene.FOLLOW_UP)):
            turn = partial(_answered_by_billing, sides, f"hand-over-{size}", message)
            works[f"{kind} {size}"] = partial(each, sides.plan.batch, turn)
    with progress("Hand-overs", len(works) * (sides.plan.rounds + 1)) as step:
        costs = await in_turns(works, sides.plan.rounds, step)
    figures = []
    for kind in ("handed over", "resumed"):
        first, last = (costs[f"{kind} {size}"] for size in sizes)
        for size, cost in zip(sizes, (first, last), strict=True):
            figures.append(Figure(f"turn {kind} after {size:,} events, wall / CPU ms", wall_and_cpu(cost)))
        figures.append(ratio_at_most("its CPU growth, first to last", last.cpu / first.cpu, CPU_GROWTH))
    return figures


async def _answered_by_billing(sides: Sides, session: str, message: str) -> None:
    answer = await sides.answer(session, message)
    if answer != f"billing: {message}":
        raise AssertionError(f"The hand-over was to be answered by billing; the answer is {answer!r}.")


async def growth(sides: Sides) -> list[Figure]:
    """How much a turn adds to the file, on the shortest and on the longest log."""
    sizes = (sides.plan.sizes[0], sides.plan.sizes[-1])
    count = 20 * sides.plan.batch
    figures, added = [], []
    with progress("Store growth", len(sizes)) as step:
        for size in sizes:
            session = sides.plan.sessions(size)[0]
            before, floor_before = scene.used_bytes(sides.path), scene.used_bytes(sides.floor_path)
            for _ in range(count):
                await sides.answer(session)
            for _ in range(count if size <= 1_000 else 0):
                sides.floor_turn(session)
            added.append((scene.used_bytes(sides.path) - before) / count)
            floor = (scene.used_bytes(sides.floor_path) - floor_before) / count
            shown = f"{floor:,.0f}" if floor else ""
            figures.append(Figure(f"bytes a turn stores after {size:,} events", f"{added[-1]:,.0f}", shown))
            step(f"{size:,} events")
    return [*figures, ratio_at_most("their growth, first to last", added[-1] / added[0], CPU_GROWTH)]


async def many_sessions(sides: Sides) -> list[Figure]:
    """100 sessions with 10 turns each, all concurrently: lost messages, and throughput."""
    sessions = [f"crowd-{number}" for number in range(SESSIONS)]
    total = SESSIONS * TURNS_EACH
    with progress("100 sessions at once", 2) as step:
        floor_rate = total / await _seconds(lambda: _floor_turns(sides, sessions))
        step("Turnwise")
        rate = total / await _seconds(lambda: asyncio.gather(*(_conversation(sides, session) for session in sessions)))
        step("counting")
    expected = [_reply(number) for number in range(TURNS_EACH)]
    logs = [[event.text for event in await sides.stored(session) if event.text in expected] for session in sessions]
    return [
        exactly("100 sessions × 10 turns at once, answers in order", sum(len(log) for log in logs if log == expected), total),
        Figure("turns a second", f"{rate:,.0f}", f"{floor_rate:,.0f}"),
        ratio_at_least("turns a second beside the floor's", rate / floor_rate, RATE_RATIO),
    ]


async def _floor_turns(sides: Sides, sessions: list[str]) -> None:
    for _ in range(TURNS_EACH):
        for session in sessions:
            sides.floor_turn(session)


async def _conversation(sides: Sides, session: str) -> None:
    for number in range(TURNS_EACH):
        await sides.answer(session, _message(number))


async def one_session(sides: Sides) -> list[Figure]:
    """20 concurrent messages on one session: all must be answered, in order, one at a time."""
    answers = await asyncio.gather(*(sides.answer("queue", _message(number)) for number in range(AT_ONCE)))
    answered = sum(answer == _reply(number) for number, answer in enumerate(answers))
    events = await sides.stored("queue")
    asked = [event.text for event in events if event.author == USER]
    in_order = sum(text == _message(number) for number, text in enumerate(asked))
    invocations = [event.invocation_id for event in events]
    changes = sum(one != other for one, other in pairwise(invocations))
    return [
        exactly("20 messages at once on one session, answered", answered, AT_ONCE),
        exactly("of them in the log in the order they came", in_order, AT_ONCE),
        exactly("interleaved with another", changes - (len(set(invocations)) - 1), 0),
    ]


async def _seconds(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


def _message(number: int) -> str:
    return f"Where is my order {number}?"


def _reply(number: int) -> str:
    return f"orders: {_message(number)}"


PARTS: tuple[Callable[[Sides], Awaitable[list[Figure]]], ...] = (by_length, hand_overs, growth, many_sessions, one_session)
