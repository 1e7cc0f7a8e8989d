"""Commands that somebody at a flow can go on with, as a shell takes them."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Group
from rich.text import Text

from turnwise.cli import rendering, terminal
from turnwise.cli.approval import Question, answer_to, approval_question
from turnwise.cli.exits import FAILED, GOOD_ENDS, INTERRUPTED, OK
from turnwise.cli.flow_output import changes_between, end_line, plan, question_line, run_data, short_status
from turnwise.cli.options import DEFAULT_USER
from turnwise.cli.shutdown import Interrupts
from turnwise.cli.terminal import clean, one_line
from turnwise.facts.content import Content
from turnwise.facts.events import Event
from turnwise.facts.messages import MessageContext
from turnwise.facts.sessions import visible
from turnwise.flows.control.logged import TURN_END, TurnEnd, data_of, turn_end_of
from turnwise.flows.plans.plan import graph_of
from turnwise.flows.record import FlowReader, FlowRecord
from turnwise.flows.tasks.graph import Graph

if TYPE_CHECKING:
    from turnwise.facts.sessions import SessionKey
    from turnwise.flows.kinds import AnyFlow
    from turnwise.runner import Runner
    from turnwise.runner.message.invocation import Invocation, Result


class RunLocation(NamedTuple):
    """Where runs of flows are kept: by which configuration, if one was named, whose they are, and in which session."""

    config: Path | None
    user: str
    session: str

    @property
    def resume(self) -> str:
        """Goes on with the run that is open there."""
        return self._command("flow", "resume", "--session", self.session)

    @property
    def sessions(self) -> str:
        """Lists the sessions that there are."""
        return self._command("sessions", "list")

    def run(self, flow: str) -> str:
        """Runs a flow there."""
        return self._command("flow", "run", flow, "--session", self.session)

    def _command(self, *words: str) -> str:
        whose = [] if self.user == DEFAULT_USER else ["--user", self.user]
        config = [] if self.config is None else ["--config", str(self.config)]
        return shlex.join(["turnwise", *words, *whose, *config])


REFRESHES = 6
OTHER_LINES = 8
"""How much of the terminal's height is left to what is printed above."""


class FlowView:
    """Shows the events of a flow's run as they come. graph: its tasks; None when the run says them. `record` is how it stands,
    None before it began.
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
        """The number of the last event; 0 before the first."""
        return self._events[-1].sequence or 0 if self._events else 0

    def asked(self, wait: str) -> Event | None:
        """The event by which somebody began to wait."""
        return next((event for event in self._events if event.actions.awaits and event.actions.awaits.id == wait), None)

    def look_back(self, events: list[Event]) -> None:
        """Takes in what happened before, without a word."""
        for event in events:
            self._take(event)

    def show(self, event: Event) -> None:
        """Shows what the event brings, which is not partial."""
        before = self._record
        self._take(event)
        if rendering.begins_attempt(event):
            self.say(rendering.attempt_line(event))
        if self._reading.is_own_event(event) and (told := data_of(event, TURN_END)) and (ended := turn_end_of(event)):
            self.say(_handed_on(str(told.get("by", "")), ended))
        if self._known is None and (planned := graph_of(self._flow, event)):
            for line in plan(planned, terminal.width(self._console)):
                self.say(line)
        for line in changes_between(before, self._record) if self._record else ():
            self.say(line)

    def say(self, line: Text) -> None:
        """A line of its own."""
        self._console.print(line, soft_wrap=True)

    @contextmanager
    def live(self) -> Iterator[None]:
        """While it is entered, the tasks stand at the bottom of the terminal, if it is one."""
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
        rows, graph = max(self._console.height - OTHER_LINES, 3), self._reading.graph
        lines = list(short_status(graph, self._record, rows)) if graph else [rendering.styled("   no plan yet", "dim")]
        for line in lines:
            line.truncate(self._console.width, overflow="ellipsis")
        return Group(Text(), *lines)


def _handed_on(by: str, ended: TurnEnd) -> Text:
    line = rendering.styled("↷ ", "dim").append(one_line(by), style="bold").append(" ends its turn", style="dim")
    line.append(f" · for {one_line(ended.next)}" if ended.next else "", style="dim")
    return line.append(f" · {one_line(ended.note.content.text)}" if ended.note else "")


LEAVE = "y or n (what stands behind n is the reason)"
Begin = Callable[[], Awaitable["Invocation"]]


class PendingQuestion(NamedTuple):
    """What somebody waits for. leave: the question whether a tool may be called, if it is that."""

    agent: str
    text: str
    leave: Question | None = None

    def answer(self, line: str) -> str | Content | None:
        """The message that the line is; None when it is no answer."""
        if self.leave is not None:
            return answer_to(self.leave, line)
        return line if line.strip() else None


class FlowConversation:
    """The messages of one run: the first, and the answers to what its agents ask. What happens is shown as it comes.

    config: the configuration's file, where one was named.
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
        self._context = context.model_copy(update={"direct_agent_id": flow.card.name})
        self._view = FlowView(flow.card.name, flow.graph)
        self._result: Result | None = None
        self._stopped = False
        self._as_json = as_json

    async def send(self, message: str | Content) -> None:
        """Sends it to the flow, and shows what comes of it, until the end or a question."""
        user, session, context = self._key.user, self._key.id, self._context
        await self._follow(lambda: self._runner.start(message, user=user, session=session, context=context))

    async def look_back(self, invocation_id: str) -> None:
        """Takes in what happened in that invocation so far."""
        self._view.look_back(await self._runner.sessions.events(self._key, invocation_id=invocation_id))

    async def attach(self, invocation_id: str) -> None:
        """Shows what else comes of an invocation that another process began, and takes it up if nobody is at it any more."""
        user, session = self._key.user, self._key.id
        await self._follow(lambda: self._runner.attach(user=user, session=session, invocation_id=invocation_id))

    async def asked(self) -> PendingQuestion | None:
        """What can be answered here, the oldest first; None when there is no such thing."""
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
        """Prints the answer, or with as_json the run as one document, and how it ended; the exit code."""
        result, record = self._result, self._view.record
        if self._as_json:
            terminal.print_json(self._data())
        if result is None or result.end is None:
            terminal.note(f"It waits. Go on with: {self._place.resume}")
            return OK
        if self._stopped and result.end.reason == "cancelled":
            terminal.note("The run is stopped for good; what its tasks did is kept, see `turnwise flow show`.")
            return INTERRUPTED
        is_good = result.end.reason in GOOD_ENDS and (record is None or record.is_good)
        answer = record.answer if record else result.text
        if answer and not self._as_json:
            terminal.say(clean(answer))
        if record is not None:
            self._view.say(end_line(record))
        if not is_good:
            error = result.error
            code, why = (error.code, error.message) if error else (result.end.reason, result.end.detail)
            terminal.complain(code, why or f"The flow ended {one_line(result.end.reason)}.")
        return OK if is_good else FAILED

    def _data(self) -> dict[str, Any]:
        """The run for programs. A flow whose tasks are never told, or not yet, has only its answer and its end."""
        where = {"session": self._key.id, "user": self._key.user}
        record, result = self._view.record, self._result
        if record is not None:
            return {**where, **run_data(record)}
        end = result.end if result else None
        about = {"flow": self._flow.card.name, "invocation_id": None, "end": end.reason if end else None}
        rest = {"detail": end.detail if end else "", "answer": result.text if result and end else ""}
        return {**where, **about, **rest, "tasks": None, "turns": [], "questions": []}

    async def _follow(self, begin: Begin) -> None:
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
