"""Answers lines of messages, several sessions at once, the messages of one session in order."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TextIO

from pydantic import BaseModel, ConfigDict, ValidationError

from turnwise.cli import terminal
from turnwise.cli.approval import approval_line, approval_question
from turnwise.cli.exits import GOOD_ENDS
from turnwise.cli.line_input import InputError, InputLines
from turnwise.cli.progress_bars import Progress
from turnwise.cli.terminal import one_line, safe_json
from turnwise.config.validation import mistakes
from turnwise.facts.content import Content
from turnwise.facts.errors import ConfigError, StoreError, TurnwiseError
from turnwise.facts.events import Event
from turnwise.facts.messages import MessageContext

if TYPE_CHECKING:
    from turnwise.assemble import App
    from turnwise.runner.message.invocation import Invocation

READ_AHEAD = 4
"""How many lines are read ahead, for each line that may be answered at the same time."""


class InputLine(BaseModel):
    """One line of the input."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    user: str
    session: str
    message: str | Content
    id: str | None = None
    """The message id. A repeated id is the same message and is answered once."""
    context: MessageContext = MessageContext()


class BatchRun:
    """Answers the lines of one input and prints the stored events.

    Attributes:
        answered: how many lines were answered successfully.
        failed: how many were not.
    """

    def __init__(self, app: "App", jobs: int, progress: Progress, output: TextIO) -> None:
        self.failed = 0
        self.answered = 0
        self._app = app
        self._progress = progress
        self._output = output
        self._ahead = asyncio.Semaphore(jobs * READ_AHEAD)
        self._jobs = asyncio.Semaphore(jobs)
        self._last: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: set[Invocation] = set()
        # A slow reader may block the output; the running sessions must not wait for it.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="turnwise-output")
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def answer(self, lines: InputLines) -> None:
        """Answers all lines.

        Raises:
            StoreError: the store failed, so the remaining lines are not tried.
            BrokenPipeError: the reader of the output is gone.
            InputError: the input cannot be read any further.
        """
        reading = asyncio.create_task(self._read(lines.read()))
        try:
            either: set[asyncio.Future[None]] = {reading, self._broken}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
            if self._tasks and not self._broken.done():
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
            if self._broken.done():
                self._broken.result()
        except StoreError:
            terminal.print_note(f"Stopped: {self.answered} lines were answered, {self.failed} failed, the rest was not tried.")
            raise
        finally:
            await self._stop(reading)

    async def _stop(self, reading: asyncio.Task[None]) -> None:
        """Cancels everything that is running, so that each invocation has a recorded end."""
        reading.cancel()
        await asyncio.gather(*(invocation.cancel() for invocation in self._running), return_exceptions=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(reading, *self._tasks, return_exceptions=True)
        self._writer.shutdown(wait=False, cancel_futures=True)

    async def _read(self, lines: AsyncIterator[tuple[int, bytes]]) -> None:
        """Starts a task for each valid line, which waits for the session's line before it."""
        async for number, raw in lines:
            if not raw.strip():
                self._progress.advance()
                continue
            line = self._parsed(number, raw)
            if line is None:
                continue
            await self._ahead.acquire()
            key = (line.user, line.session)
            task = asyncio.create_task(self._answer_line(number, line, self._last.get(key)))
            self._last[key] = task
            self._tasks.add(task)
            task.add_done_callback(lambda done, key=key: self._done(done, key))  # type: ignore[misc]

    def _done(self, task: asyncio.Task[None], key: tuple[str, str]) -> None:
        """Removes a finished task. An error that is not the line's own ends the whole run."""
        self._ahead.release()
        self._tasks.discard(task)
        if self._last.get(key) is task:
            del self._last[key]
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._broken.done():
            self._broken.set_exception(error)

    def _parsed(self, number: int, raw: bytes) -> InputLine | None:
        """Returns the line's message; None for an invalid line, which is reported."""
        try:
            return InputLine.model_validate_json(raw, strict=True, extra="forbid")
        except ValidationError as error:
            first = mistakes(error, InputLine)[0]
            self._complain(number, InputError(first.problem, fix=first.fix or f"Keys: {', '.join(InputLine.model_fields)}."))
            return None

    async def _answer_line(self, number: int, line: InputLine, before: asyncio.Task[None] | None) -> None:
        """Answers one line after the session's line before it, and counts or reports the result."""
        if before is not None:
            await asyncio.wait([before])
        async with self._jobs:
            try:
                problem = await self._answered(number, line)
            except (StoreError, ConfigError):
                raise
            except TurnwiseError as error:
                problem = error
        if problem is None:
            self.answered += 1
            self._progress.advance()
        else:
            self._complain(number, problem)

    async def _answered(self, number: int, line: InputLine) -> TurnwiseError | None:
        """Answers one line and prints its events. Returns the error if the invocation failed."""
        runner = self._app.runner
        invocation = await runner.start(
            line.message,
            user=line.user,
            session=line.session,
            message_id=line.id,
            context=line.context,
            config=runner.config.replace(streaming=False),
        )
        self._running.add(invocation)
        try:
            async for event in invocation.events():
                if not event.partial:
                    await self._print(line, event)
                    self._tell_how_to_answer(number, line, event)
            result = await invocation.result()
        finally:
            self._running.discard(invocation)
        if result.end is None or result.end.reason in GOOD_ENDS:
            return None
        return InputError(f"Session {line.session!r}: the answer ended {result.end.reason!r}. {result.end.detail}".rstrip())

    async def _print(self, line: InputLine, event: Event) -> None:
        text = safe_json(event_json(line.user, line.session, event)) + "\n"
        await asyncio.get_running_loop().run_in_executor(self._writer, self._write, text)

    def _write(self, text: str) -> None:
        self._output.write(text)
        self._output.flush()

    def _tell_how_to_answer(self, number: int, line: InputLine, event: Event) -> None:
        """Prints a question for approval, and the input line that would approve it: nobody can be asked here."""
        if question := approval_question(event):
            says_yes = approval_line(question, self._app.runner.key(line.user, line.session))
            terminal.print_note(
                f"line {number}: {one_line(f'{question.agent} asks: {question.text}')}", console=self._progress.console
            )
            terminal.print_note(f"  A line that says yes: {safe_json(says_yes)}", console=self._progress.console)

    def _complain(self, number: int, error: TurnwiseError) -> None:
        self.failed += 1
        terminal.print_error(error.code, error.problem, error.fix, before=f"line {number}", console=self._progress.console)
        self._progress.advance(failed=True)


def event_json(user: str, session: str, event: Event, **about: Any) -> str:
    """A stored event as one line of JSON: its user and session, the fields of `about`, then the event's fields.

    Empty actions are omitted.
    """
    import json

    data: dict[str, Any] = {"user": user, "session": session, **about, **event.model_dump(mode="json")}
    data["actions"] = {name: value for name, value in data["actions"].items() if value not in (None, False, [], {}, ())}
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
