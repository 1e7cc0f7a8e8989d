"""One conversation: sends a message, shows the answer as it comes, and cancels it on Ctrl-C."""

import asyncio
import os
import shlex
import traceback
from typing import TYPE_CHECKING

from rich.text import Text

from turnwise.cli import rendering, terminal
from turnwise.cli.clean import Cleaner, clean, one_line
from turnwise.cli.exits import GOOD_ENDS
from turnwise.cli.interrupts import Interrupts
from turnwise.cli.leave import Question, answer_to, question_in
from turnwise.cli.model_work import CallLines
from turnwise.cli.wrapping import wrapped
from turnwise.facts.content import Content, DataPart, Part, ToolCallPart, ToolResultPart
from turnwise.facts.errors import SessionMissing, StoreError, TurnwiseError
from turnwise.facts.events import USER, Event
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Selection

if TYPE_CHECKING:
    from turnwise.assemble import App
    from turnwise.runner.message.invocation import Invocation


class Conversation:
    """The turns of one session. `failures` counts those that did not end well; `questions` are open ones whether a tool may
    be called, oldest first: the next line that says y or n answers the first.
    """

    def __init__(self, app: "App", user: str, session: str, context: MessageContext) -> None:
        self.failures = 0
        self.questions: list[Question] = []
        self._app = app
        self._user = user
        self._session = session
        self._context = context
        self._selection: Selection | None = None
        self._turns = 0

    async def look_back(self) -> None:
        """Finds the questions that are open since the session was left, and shows them."""
        runner = self._app.runner
        key = runner.key(self._user, self._session)
        try:
            waiting = (await runner.sessions.get(key)).head.waiting()
        except SessionMissing:
            return
        for invocation, _, wait in reversed(waiting):
            if wait.kind == "tool_result":
                events = await runner.sessions.events(key, invocation_id=invocation)
                found = (question_in(event) for event in events)
                self.questions += [question for question in found if question and question.id == wait.id]
        for question in self.questions:
            terminal.say(rendering.styled(f"{one_line(question.agent)}: ", "bold").append(clean(question.text)))

    async def turn(self, line: str) -> None:
        """Sends a message, or the answer to an open question, and shows what comes of it.

        Errors are shown, too; only a store that has failed is raised.
        """
        answer = answer_to(self.questions[0], line) if self.questions else None
        if answer is not None:
            self.questions.pop(0)
        await self._send(line if answer is None else answer)

    async def _send(self, message: str | Content) -> None:
        asked = asyncio.Event()
        try:
            with Interrupts(asked.set):
                invocation = await self._app.runner.start(
                    message, user=self._user, session=self._session, context=self._context
                )
                self._turns += 1
                canceller = asyncio.create_task(_cancel_when(asked, invocation))
                try:
                    await self._follow(invocation)
                finally:
                    canceller.cancel()
        except StoreError:
            raise
        except TurnwiseError as error:
            self.failures += 1
            terminal.show_error(error)

    async def _follow(self, invocation: "Invocation") -> None:
        answer = Answer()
        async for event in invocation.events():
            if event.actions.selection is not None:
                self._selection = event.actions.selection
            answer.show(event)
            if not event.partial and (question := question_in(event)):
                self.questions.append(question)
        answer.close()
        result = await invocation.result()
        if result.exception is not None:
            _show_place(result.exception)
        end = result.end
        if end is not None and end.reason not in GOOD_ENDS:
            self.failures += 1

    def explain(self) -> None:
        """Shows why the last message went to whom it went."""
        if self._selection is None:
            terminal.say("Nothing has been decided in this conversation yet.", "dim")
            return
        told = [rendering.decision_line(self._selection), *rendering.explanation(self._selection)]
        terminal.say_all(wrapped([*told, rendering.summary(self._selection)], terminal.width()))

    def describe(self) -> None:
        """Says which session this is."""
        back = shlex.join(["turnwise", "chat", "--user", self._user, "--session", self._session])
        terminal.say(f"session {self._session} of user {self._user} in {self._app.runner.app}, {self._turns} messages so far")
        terminal.say(f"come back with: {back}", "dim")


async def _cancel_when(asked: asyncio.Event, invocation: "Invocation") -> None:
    await asked.wait()
    await invocation.cancel()


def _show_place(exception: BaseException) -> None:
    """Shows where the agent's own code raised; all of it with TURNWISE_DEBUG."""
    from turnwise.runner.turn.own_frames import own_frames

    if os.environ.get("TURNWISE_DEBUG"):
        terminal.note("".join(traceback.format_exception(exception)).rstrip())
    elif places := own_frames(exception):
        terminal.say(f"  at {clean(places[-1])} (TURNWISE_DEBUG=1 shows the whole traceback)", "dim")


class Answer:
    """Shows the events of one message as they come: who answers, the text in pieces, calls of tools, hand-overs, and a bad
    end.
    """

    def __init__(self) -> None:
        self._streaming: str | None = None
        self._streamed = ""
        self._cleaner = Cleaner()
        self._told = ""
        self._calls = CallLines()

    def show(self, event: Event) -> None:
        """Shows one event; what was streamed is not shown again."""
        if event.is_private:
            return
        if event.partial:
            if event.text:  # what it thinks, and the arguments of its calls, come in pieces too
                self._piece(event)
            return
        already = self._finish_stream(event)
        if event.actions.selection is not None:
            terminal.say_all(wrapped([rendering.decision_line(event.actions.selection)], terminal.width()))
        if event.author != USER and event.content is not None:
            if not already:
                self._say(event)
            terminal.say_all(self._calls.of(event))
            terminal.say_all(rendering.cut_off(event))
        self._acts(event)

    def close(self) -> None:
        """Ends a line that was begun and never finished."""
        if self._streaming is not None:
            terminal.write(self._cleaner.rest() + "\n")
            self._streaming = None

    def _piece(self, event: Event) -> None:
        if self._streaming != event.id:
            self.close()
            self._streaming, self._streamed, self._cleaner = event.id, "", Cleaner()
            terminal.out().print(_speaker(event), end="", soft_wrap=True)
        self._streamed += event.text
        terminal.write(self._cleaner.feed(event.text))

    def _finish_stream(self, event: Event) -> bool:
        """Ends the line of a stream; True when its text is what the event says."""
        if self._streaming is None:
            return False
        same = self._streaming == event.id and self._streamed.strip() == event.text.strip()
        self.close()
        return same

    def _say(self, event: Event) -> None:
        assert event.content is not None
        said = [part for part in event.content.parts if _is_for_people(part)]
        for number, line in enumerate(rendering.content_lines(Content(parts=tuple(said)))):
            shown = _speaker(event).append_text(line) if number == 0 else line
            terminal.say(shown)

    def _acts(self, event: Event) -> None:
        actions = event.actions
        if rendering.begins_attempt(event):
            terminal.say(rendering.attempt_line(event))
        if event.author != USER:
            for name, version in actions.artifact_versions.items():
                terminal.say("  " + one_line(f"saved {name}, version {version}"), "dim")
        if event.error is not None:
            self._told = event.error.message
            line = rendering.styled(one_line(event.author), "bold red")
            line.append(f" failed [{event.error.code}]: {one_line(event.error.message)}", style="red")
            terminal.say(line)
        if actions.transfer_to is not None:
            line = rendering.styled("→ ", "dim").append(one_line(actions.transfer_to), style="bold cyan")
            line.append(f" · transfer · {one_line(event.author)} hands over", style="dim")
            terminal.say(line)
        if actions.end is not None and actions.end.reason not in GOOD_ENDS:
            news = actions.end.detail if actions.end.detail != self._told else ""
            detail = f": {one_line(news)}" if news else ""
            terminal.say(f"({one_line(actions.end.reason)}{detail})", "yellow")


def _speaker(event: Event) -> Text:
    return rendering.styled(f"{one_line(event.author)}: ", "bold")


def _is_for_people(part: Part) -> bool:
    return not (isinstance(part, ToolCallPart | ToolResultPart) or (isinstance(part, DataPart) and part.private))
