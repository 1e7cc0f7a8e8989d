"""One run of a flow at the terminal: its messages, its live view, and the commands that continue it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Group
from rich.text import Text

from turnwise.cli import rendering, terminal
from turnwise.cli.approval import approval_answer, approval_question
from turnwise.cli.exits import FAILED, GOOD_ENDS, INTERRUPTED, OK
from turnwise.cli.flow_output import change_lines, end_line, plan_lines, question_line, run_data, short_status_lines
from turnwise.cli.shutdown import Interrupts
from turnwise.cli.terminal import clean, one_line
from turnwise.facts.content import Content
from turnwise.facts.events import Event
from turnwise.facts.messages import MessageContext
from turnwise.facts.sessions import visible
from turnwise.facts.waits import Wait
from turnwise.flows.logged import TURN_END, TurnEnd, data_of, turn_end_of
from turnwise.flows.plan import graph_of
from turnwise.flows.record import FlowReader, FlowRecord
from turnwise.flows.tasks import Graph

if TYPE_CHECKING:
    from turnwise.facts.sessions import SessionKey
    from turnwise.flows.planned import AnyFlow
    from turnwise.runner import Runner
    from turnwise.runner.message.invocation import Invocation, Result


from turnwise.cli.options import RunLocation

REFRESHES = 6
RESERVED_ROWS = 8
"""Rows of the terminal that are reserved for the lines printed above the live view."""


class FlowView:
    """Shows the events of a flow's run as they arrive.

    Args:
        graph: the flow's tasks; None if the run plans them.
    """

    def __init__(self, flow: str, graph: Graph | None = None) -> None:
        self._flow, self._known = flow, graph
        self._console = terminal.err()
        self._events: list[Event] = []
        self._reading = FlowReader(flow, graph)
        self._record: FlowRecord | None = None

    @property
    def record(self) -> FlowRecord | None:
        return self._record

    @property
    def last(self) -> int:
        """The sequence number of the last event; 0 before the first."""
        return self._events[-1].sequence or 0 if self._events else 0

    def asked(self, wait: str) -> Event | None:
        """The event with which an agent started that wait."""
        return next((event for event in self._events if event.actions.awaits and event.actions.awaits.id == wait), None)

    def look_back(self, events: list[Event]) -> None:
        """Adds earlier events without showing them."""
        for event in events:
            self._take(event)

    def show(self, event: Event) -> None:
        """Adds an event, which must not be partial, and shows what it changes."""
        before = self._record
        self._take(event)
        if rendering.starts_attempt(event):
            self.say(rendering.attempt_line(event))
        if self._reading.is_own_event(event) and (told := data_of(event, TURN_END)) and (ended := turn_end_of(event)):
            self.say(_turn_end_line(str(told.get("by", "")), ended))
        if self._known is None and (planned := graph_of(self._flow, event)):
            for line in plan_lines(planned, terminal.width(self._console)):
                self.say(line)
        for line in change_lines(before, self._record) if self._record else ():
            self.say(line)

    def say(self, line: Text) -> None:
        """Prints a line."""
        self._console.print(line, soft_wrap=True)

    @contextmanager
    def live(self) -> Iterator[None]:
        """Shows the tasks at the bottom of the terminal while the block runs. Does nothing if standard error is no terminal."""
        if not self._console.is_terminal:
            yield
            return
        from rich.live import Live

        with Live(
            get_renderable=self._glance,
            console=self._console,
            refresh_per_second=REFRESHES,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        ):
            yield

    def _take(self, event: Event) -> None:
        """Adds an event to the run's record. A rewind builds the record again from what stays visible."""
        self._events.append(event)
        if event.actions.rewind is None:
            self._reading.add(event)
        else:
            self._events = visible(self._events)
            self._reading = FlowReader(self._flow, self._known)
            for left in self._events:
                self._reading.add(left)
        self._record = self._reading.record

    def _glance(self) -> Group:
        rows, graph = max(self._console.height - RESERVED_ROWS, 3), self._reading.graph
        lines = list(short_status_lines(graph, self._record, rows)) if graph else [rendering.styled("   no plan yet", "dim")]
        for line in lines:
            line.truncate(self._console.width, overflow="ellipsis")
        return Group(Text(), *lines)


def _turn_end_line(by: str, ended: TurnEnd) -> Text:
    line = rendering.styled("↷ ", "dim").append(one_line(by), style="bold").append(" ends its turn", style="dim")
    line.append(f" · for {one_line(ended.next)}" if ended.next else "", style="dim")
    return line.append(f" · {one_line(ended.note.content.text)}" if ended.note else "")


APPROVAL_HINT = "y, or n and perhaps a reason"
Begin = Callable[[], Awaitable["Invocation"]]


class PendingQuestion(NamedTuple):
    """A question that a run waits for."""

    agent: str
    text: str
    leave: Wait | None = None
    """The approval question, if it is one."""

    def answer(self, line: str) -> str | Content | None:
        """Turns a typed line into the answer; None if it is not an answer."""
        if self.leave is not None:
            return approval_answer(self.leave, line)
        return line if line.strip() else None


class FlowConversation:
    """The messages of one run: the first one, and the answers to its agents' questions. Shows the events as they arrive.

    Args:
        config: the configuration file, if one was named.
    """

    def __init__(
        self,
        runner: "Runner",
        flow: "AnyFlow",
        key: "SessionKey",
        context: MessageContext,
        config: Path | None = None,
        *,
        as_json: bool = False,
    ) -> None:
        self._runner, self._flow, self._key = runner, flow, key
        self._place = RunLocation(config, key.user, key.id)
        self._context = context.replace(direct_agent_id=flow.card.name)
        self._view = FlowView(flow.card.name, flow.graph)
        self._result: Result | None = None
        self._stopped = False
        self._as_json = as_json

    async def send(self, message: str | Content) -> None:
        """Sends a message to the flow and shows the events until the run ends or asks a question."""
        user, session, context = self._key.user, self._key.id, self._context
        await self._follow(lambda: self._runner.start(message, user=user, session=session, context=context))

    async def look_back(self, invocation_id: str) -> None:
        """Loads the earlier events of that invocation."""
        self._view.look_back(await self._runner.sessions.events(self._key, invocation_id=invocation_id))

    async def attach(self, invocation_id: str) -> None:
        """Follows an invocation that another process started, and takes it over if that process has died."""
        user, session = self._key.user, self._key.id
        await self._follow(lambda: self._runner.attach(user=user, session=session, invocation_id=invocation_id))

    async def asked(self) -> PendingQuestion | None:
        """Returns the oldest question that can be answered here; None if there is none."""
        open_ = (await self._runner.sessions.get(self._key)).head.invocations
        waits = [wait for each in open_.values() if each.agent == self._flow.card.name for wait in each.waits]
        for agent, wait in waits:
            event = self._view.asked(wait.id)
            if event is not None and wait.kind == "reply":
                return PendingQuestion(agent, event.text)
            if event is not None and (question := approval_question(event)):
                return PendingQuestion(agent, question.text, question)
        return None

    def ask(self, asked: PendingQuestion) -> None:
        """Shows the question."""
        self._view.say(question_line(asked.agent, asked.text))

    def finish(self) -> int:
        """Prints the answer, or the run as JSON, and how the run ended. Returns the exit code."""
        result, record = self._result, self._view.record
        if self._as_json:
            terminal.print_json(self._data())
        if result is None or result.end is None:
            terminal.print_note(f"It waits. Continue with: {self._place.resume}")
            return OK
        if self._stopped and result.end.reason == "cancelled":
            terminal.print_note("The run is cancelled; the results of its tasks are kept, see `turnwise flow show`.")
            return INTERRUPTED
        is_good = result.end.reason in GOOD_ENDS and (record is None or record.is_good)
        answer = record.answer if record else result.text
        if answer and not self._as_json:
            terminal.print_line(clean(answer))
        if record is not None:
            self._view.say(end_line(record))
        if not is_good:
            error = result.error
            code, why = (error.code, error.message) if error else (result.end.reason, result.end.detail)
            terminal.print_error(code, why or f"The flow ended {one_line(result.end.reason)}.")
        return OK if is_good else FAILED

    def _data(self) -> dict[str, Any]:
        """The run as JSON data. Without a record, only the answer and the end are known."""
        where = {"session": self._key.id, "user": self._key.user}
        record, result = self._view.record, self._result
        if record is not None:
            return {**where, **run_data(record)}
        end = result.end if result else None
        about = {"flow": self._flow.card.name, "invocation_id": None, "end": end.reason if end else None}
        rest = {"detail": end.detail if end else "", "answer": result.text if result and end else ""}
        return {**where, **about, **rest, "tasks": None, "turns": [], "questions": []}

    async def _follow(self, begin: Begin) -> None:
        """Starts an invocation and shows its events live; Ctrl-C cancels it."""
        stop = asyncio.Event()
        with Interrupts(stop.set):
            invocation = await begin()
            stopping = asyncio.create_task(self._stop_when(stop, invocation))
            try:
                with self._view.live():
                    async for event in invocation.events(after=self._view.last):
                        if not event.partial:
                            self._view.show(event)
            finally:
                stopping.cancel()
        self._result = await invocation.result()

    async def _stop_when(self, stop: asyncio.Event, invocation: "Invocation") -> None:
        await stop.wait()
        self._stopped = True
        await invocation.cancel()
