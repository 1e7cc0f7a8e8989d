"""What tests of flows share: how models say what they did, what the log tells, a flow of ten tasks, and processes that die."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from llm_play import heard
from runner_play import InFront, NoHeartbeat, ask, killed, soon

from turnwise import Runner, SqlSessionStore
from turnwise.facts.events import Event
from turnwise.flows.flow import Flow
from turnwise.flows.logged import FLOW, data_of, task_end_of
from turnwise.flows.tasks import TaskEnd
from turnwise.ports.context import AgentContext
from turnwise.ports.model import ModelRequest
from turnwise.testing.models import calls

TEN = {
    "a": (),
    "b": (),
    "c": ("a",),
    "d": ("a", "b"),
    "e": ("b",),
    "f": ("c", "d"),
    "g": ("e",),
    "h": ("f", "g"),
    "i": ("h",),
    "j": ("h", "c"),
}
"""Ten tasks: two to begin with, diamonds, two ends."""


def ten_tasks(ran: Counter[str], **options: Any) -> Flow:
    """A flow of ten tasks whose results are made of those before. `ran` counts how often each function ran to its end."""
    flow = Flow("ten", description="Ten tasks.", **options)
    for name, needs in TEN.items():
        flow.task(name=name, depends_on=list(needs))(_function(name, needs, ran))
    return flow


def _function(name: str, needs: tuple[str, ...], ran: Counter[str]) -> Any:
    async def work(context: AgentContext) -> str:
        part = context.assignment
        assert part is not None
        await asyncio.sleep(0)
        context.state[name] = context.state.get(name, 0) + 1
        ran[name] += 1
        return f"{name}({','.join(str(part.tasks[0].given[need]) for need in needs)})"

    return work


class DiesAt(InFront):
    """A store of a process that dies at its `commit`-th commit: right before it, or right after. `reached` is set then."""

    def __init__(self, inner: Any, commit: int, *, after: bool) -> None:
        super().__init__(NoHeartbeat(inner))
        self._left, self._after, self.reached = commit, after, asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in ("begin", "take", "append"):
            return method

        async def counted(*arguments: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                await self._die()
            done = await method(*arguments, **options)
            if self._left == 0:
                await self._die()
            return done

        return counted

    async def _die(self) -> None:
        self.reached.set()
        await asyncio.Event().wait()


async def died_at(commit: int, url: str, make: Callable[..., Runner], text: str, session: str = "s", **options: Any) -> bool:
    """Sends the message `m` to a process that dies at its `commit`-th commit, right before the odd ones and right after the
    even ones; False when it came to its end before. `make` makes its runner, of a `store`."""
    inner = SqlSessionStore(url)
    store = DiesAt(inner, commit, after=commit % 2 == 0)
    runner = make(store=store)
    async with killed():
        died = asyncio.ensure_future(store.reached.wait())
        ended = asyncio.ensure_future(ask(runner, text, session, message_id="m", **options))
        await soon(asyncio.wait([died, ended], return_when=asyncio.FIRST_COMPLETED))
        reached = store.reached.is_set()
    await inner.close()
    return reached


def done(result: Any = "done", task: str = "") -> Any:
    """A model says that its task, or that one of several, is done."""
    return calls(f"task_succeeded_{task}" if task else "task_succeeded", {"result": result})


def failed(reason: str = "no way", **task: str) -> Any:
    return calls("task_failed", {"reason": reason, **task})


def words(request: ModelRequest) -> str:
    """All that a model was shown as the conversation."""
    return "\n".join(text for _, text in heard(request))


def closings(events: Iterable[Event]) -> dict[str, TaskEnd]:
    """How tasks ended by themselves or by somebody, as the log says it; none of them twice."""
    found = [closing for event in events if (closing := task_end_of(event)) is not None]
    assert len(found) == len({closing.task for closing in found}), "a task ended twice"
    return {closing.task: closing for closing in found}


def statuses(events: Iterable[Event]) -> dict[str, str]:
    """What the flow told of its tasks at its end."""
    return {name: task["status"] for name, task in ended(events)["tasks"].items()}


def ended(events: Iterable[Event], flow: str = "flow") -> Any:
    """What the flow told of itself at its end, which it does once."""
    told = [data for event in events if (data := data_of(event, FLOW)) is not None and data["flow"] == flow]
    assert len(told) == 1, f"it ended {len(told)} times"
    return told[0]


def turns(events: Iterable[Event], flow: str = "flow") -> list[tuple[str, str, tuple[str, ...]]]:
    """Who had each turn, by which method, for which tasks."""
    found = []
    for event in events:
        selection = event.actions.selection
        if event.author == flow and selection is not None and selection.occasion == "flow":
            found.append((selection.agent, selection.method, tuple(label.rpartition("/")[2] for label in event.scope)))
    return found
