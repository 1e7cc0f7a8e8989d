"""One run of a flow at the terminal: what it is asked, what it asks, and what comes of it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from turnwise.cli import terminal
from turnwise.cli.clean import clean, one_line
from turnwise.cli.exits import FAILED, GOOD_ENDS, INTERRUPTED, OK
from turnwise.cli.flow_data import run_data
from turnwise.cli.flow_hints import Place
from turnwise.cli.flow_lines import end_line, question_line
from turnwise.cli.flow_view import FlowView
from turnwise.cli.interrupts import Interrupts
from turnwise.cli.leave import Question, answer_to, question_in
from turnwise.facts.content import Content
from turnwise.facts.messages import MessageContext

if TYPE_CHECKING:
    from turnwise.facts.sessions import SessionKey
    from turnwise.flows.kinds import AnyFlow
    from turnwise.runner import Runner
    from turnwise.runner.message.invocation import Invocation, Result

LEAVE = "y or n (what stands behind n is the reason)"
Begin = Callable[[], Awaitable["Invocation"]]


class Asked(NamedTuple):
    """What somebody waits for. leave: the question whether a tool may be called, if it is that."""

    agent: str
    text: str
    leave: Question | None = None

    def answer(self, line: str) -> str | Content | None:
        """The message that the line is; None when it is no answer."""
        if self.leave is not None:
            return answer_to(self.leave, line)
        return line if line.strip() else None


class FlowTalk:
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
        self._place = Place(config, key.user, key.id)
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

    async def asked(self) -> Asked | None:
        """What can be answered here, the oldest first; None when there is no such thing."""
        open_ = (await self._runner.sessions.get(self._key)).head.invocations
        waits = [wait for each in open_.values() if each.agent == self._flow.card.name for wait in each.waits]
        for agent, wait in waits:
            event = self._view.asked(wait.id)
            if event is not None and wait.kind == "reply":
                return Asked(agent, event.text)
            if event is not None and (question := question_in(event)):
                return Asked(agent, question.text, question)
        return None

    def ask(self, asked: Asked) -> None:
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
