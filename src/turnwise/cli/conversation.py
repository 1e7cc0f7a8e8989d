"""One conversation at the terminal: sends messages, shows the answers as they come, and cancels on Ctrl-C."""

import asyncio
import json
import os
import shlex
import traceback
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pydantic import JsonValue
from rich.text import Text

from turnwise.cli import rendering, terminal
from turnwise.cli.approval import approval_answer, approval_question
from turnwise.cli.exits import GOOD_ENDS
from turnwise.cli.rendering import wrap
from turnwise.cli.shutdown import Interrupts
from turnwise.cli.terminal import Cleaner, clean, one_line
from turnwise.facts.content import CHOICES, Content, DataPart, Part, ToolCallPart, ToolResultPart
from turnwise.facts.errors import SessionMissing, StoreError, TurnwiseError
from turnwise.facts.events import USER, Event
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Selection
from turnwise.facts.waits import Wait

if TYPE_CHECKING:
    from turnwise.assemble import App
    from turnwise.runner.message.invocation import Invocation

VALUE_CHARACTERS, ARGUMENTS_CHARACTERS, RESULT_CHARACTERS = 40, 100, 200

HELP = """/why      why the last message went to its agent
/session  the id of this session, and how to resume it
/help     the list of commands
/quit     leave (also Ctrl-D)
Ctrl-C cancels the running answer. Begin a message with // to send one that begins with /."""


def _intro_lines(app: "App", user: str, session: str, context: "MessageContext") -> "Iterator[Text]":
    """The first lines: the app and session, the user and roles, where the conversation is stored, and how to leave."""
    agents = len(app.runner.tree)
    roles = f" with the roles {', '.join(context.roles)}" if context.roles else ""
    yield rendering.styled(one_line(f"{app.runner.app}: {agents} agent{'' if agents == 1 else 's'} · session {session}"), "dim")
    yield rendering.styled(one_line(f"You speak as user {user}{roles}; the conversation is stored in {app.store}."), "dim")
    yield rendering.styled("Write a message. /help lists the commands, Ctrl-D leaves.", "dim")


def _run_slash_command(line: str, conversation: "Conversation") -> bool:
    """Runs a slash command. Returns False if the command ends the chat."""
    command = line.strip().lower()
    if command in {"/quit", "/exit", "/q"}:
        return False
    if command == "/why":
        conversation.explain()
    elif command == "/session":
        conversation.describe()
    elif command in {"/help", "/?"}:
        terminal.print_line(HELP)
    else:
        fix = "/help lists them; // sends a message that begins with /."
        terminal.print_error("usage", f"There is no command {command.split()[0]}.", fix)
    return True


class ToolCallLines:
    """Shows the tool calls of one message, one dim line each, and the errors of failed calls.

    Omits private calls, such as handoffs: their effect is shown instead.
    """

    def __init__(self) -> None:
        self._private: set[str] = set()

    def of(self, event: Event) -> Iterator[Text]:
        """Returns the lines of one event. Events must be passed in order."""
        for part in event.content.parts if event.content else ():
            if isinstance(part, ToolCallPart):
                if part.private:
                    self._private.add(part.call_id)
                else:
                    yield rendering.styled(f"  · {call_text(part)}", "dim")
            elif isinstance(part, ToolResultPart) and part.failed and part.call_id not in self._private:
                yield rendering.styled(f"  · {failure_text(part)}", "yellow")


def call_text(part: ToolCallPart) -> str:
    """A tool call as `status(order="A-1")`. Long values are cut; arguments that are no JSON object appear as the model wrote
    them.
    """
    given = part.raw if part.raw is not None and not part.arguments else _format_arguments(part.arguments)
    return f"{one_line(part.tool)}({one_line(given, ARGUMENTS_CHARACTERS)})"


def failure_text(part: ToolResultPart) -> str:
    """The error of a failed tool call."""
    why = part.result if isinstance(part.result, str) else json.dumps(part.result, ensure_ascii=False)
    return f"{one_line(part.tool or part.call_id)} failed: {one_line(why, RESULT_CHARACTERS)}"


def _format_arguments(arguments: Mapping[str, JsonValue]) -> str:
    return ", ".join(f"{name}={_format_value(value)}" for name, value in arguments.items())


def _format_value(value: JsonValue) -> str:
    return one_line(json.dumps(value, ensure_ascii=False), VALUE_CHARACTERS)


class Conversation:
    """The messages of one session.

    Attributes:
        failures: how many turns did not end successfully.
        questions: open approval questions, oldest first. The next line that is y or n answers the first.
    """

    def __init__(self, app: "App", user: str, session: str, context: MessageContext) -> None:
        self.failures = 0
        self.questions: list[Wait] = []
        self._app = app
        self._user = user
        self._session = session
        self._context = context
        self._selection: Selection | None = None
        self._turns = 0

    async def look_back(self) -> None:
        """Loads and shows the approval questions that are still open in the session."""
        runner = self._app.runner
        key = runner.key(self._user, self._session)
        try:
            waiting = (await runner.sessions.get(key)).head.waiting()
        except SessionMissing:
            return
        for invocation, _, wait in reversed(waiting):
            if wait.kind == "tool_result":
                events = await runner.sessions.events(key, invocation_id=invocation)
                found = (approval_question(event) for event in events)
                self.questions += [question for question in found if question and question.id == wait.id]
        for question in self.questions:
            terminal.print_line(rendering.styled(f"{one_line(question.agent)}: ", "bold").append(clean(question.text)))

    async def turn(self, line: str) -> None:
        """Sends a message, or the answer to an open question, and shows the reply.

        Shows errors too; raises only a StoreError.
        """
        answer = approval_answer(self.questions[0], line) if self.questions else None
        if answer is not None:
            self.questions.pop(0)
        await self._send(line if answer is None else answer)

    async def _send(self, message: str | Content) -> None:
        """Sends a message, or the answer to a question, and shows the reply. Ctrl-C cancels it. Raises StoreError."""
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
        """Shows the invocation's events as they come, and collects approvals that it asks for."""
        answer = AnswerView()
        async for event in invocation.events():
            if event.actions.selection is not None:
                self._selection = event.actions.selection
            answer.show(event)
            if not event.partial and (question := approval_question(event)):
                self.questions.append(question)
        answer.close()
        result = await invocation.result()
        if result.exception is not None:
            _show_location(result.exception)
        end = result.end
        if end is not None and end.reason not in GOOD_ENDS:
            self.failures += 1

    def explain(self) -> None:
        """Shows why the last message was routed to its agent."""
        if self._selection is None:
            terminal.print_line("Nothing has been decided in this conversation yet.", "dim")
            return
        told = [rendering.decision_line(self._selection), *rendering.explanation_lines(self._selection)]
        terminal.print_lines(wrap([*told, rendering.summary_line(self._selection)], terminal.width()))

    def describe(self) -> None:
        """Shows the session's id and the command that resumes it."""
        back = shlex.join(["turnwise", "chat", "--user", self._user, "--session", self._session])
        terminal.print_line(
            f"session {self._session} of user {self._user} in {self._app.runner.app}, {self._turns} messages so far"
        )
        terminal.print_line(f"resume with: {back}", "dim")


async def _cancel_when(asked: asyncio.Event, invocation: "Invocation") -> None:
    await asked.wait()
    await invocation.cancel()


def _show_location(exception: BaseException) -> None:
    """Shows the line where the agent's code raised. With TURNWISE_DEBUG, shows the whole traceback."""
    from turnwise.runner.turn.run_agent import own_frames

    if os.environ.get("TURNWISE_DEBUG"):
        terminal.print_note("".join(traceback.format_exception(exception)).rstrip())
    elif places := own_frames(exception):
        terminal.print_line(f"  at {clean(places[-1])} (TURNWISE_DEBUG=1 shows the whole traceback)", "dim")


class AnswerView:
    """Shows the events of one message as they arrive: the chosen agent, streamed text, tool calls, handoffs and failed ends."""

    def __init__(self) -> None:
        self._streaming: str | None = None
        self._streamed = ""
        self._cleaner = Cleaner()
        self._told = ""
        self._calls = ToolCallLines()

    def show(self, event: Event) -> None:
        """Shows one event. Text that was streamed is not repeated."""
        if event.is_private:
            return
        if event.partial:
            if event.text:  # thoughts and tool arguments are streamed too, without text
                self._print_piece(event)
            return
        already = self._finish_stream(event)
        if event.actions.selection is not None:
            terminal.print_lines(wrap([rendering.decision_line(event.actions.selection)], terminal.width()))
        if event.author != USER and event.content is not None:
            if not already:
                self._print_content(event)
            terminal.print_lines(self._calls.of(event))
            terminal.print_lines(rendering.cut_off_lines(event))
        self._print_actions(event)

    def close(self) -> None:
        """Ends an unfinished line."""
        if self._streaming is not None:
            terminal.write(self._cleaner.rest() + "\n")
            self._streaming = None

    def _print_piece(self, event: Event) -> None:
        """Prints a piece of a streamed answer, after the author's name at its start."""
        if self._streaming != event.id:
            self.close()
            self._streaming, self._streamed, self._cleaner = event.id, "", Cleaner()
            terminal.out().print(_author_prefix(event), end="", soft_wrap=True)
        self._streamed += event.text
        terminal.write(self._cleaner.feed(event.text))

    def _finish_stream(self, event: Event) -> bool:
        """Ends the line of a stream. Returns True if the streamed text equals the event's text."""
        if self._streaming is None:
            return False
        same = self._streaming == event.id and self._streamed.strip() == event.text.strip()
        self.close()
        return same

    def _print_content(self, event: Event) -> None:
        assert event.content is not None
        said = [part for part in event.content.parts if _is_displayed(part)]
        for number, line in enumerate(rendering.content_lines(Content(parts=tuple(said)))):
            shown = _author_prefix(event).append_text(line) if number == 0 else line
            terminal.print_line(shown)

    def _print_actions(self, event: Event) -> None:
        """Prints what an event does besides its text: saved artifacts, an error, a transfer, an unsuccessful end."""
        actions = event.actions
        if rendering.starts_attempt(event):
            terminal.print_line(rendering.attempt_line(event))
        if event.author != USER:
            for name, version in actions.artifact_versions.items():
                terminal.print_line("  " + one_line(f"saved {name}, version {version}"), "dim")
        if event.error is not None:
            self._told = event.error.message
            line = rendering.styled(one_line(event.author), "bold red")
            line.append(f" failed [{event.error.code}]: {one_line(event.error.message)}", style="red")
            terminal.print_line(line)
        if actions.transfer_to is not None:
            line = rendering.styled("→ ", "dim").append(one_line(actions.transfer_to), style="bold cyan")
            line.append(f" · transfer · {one_line(event.author)} hands over", style="dim")
            terminal.print_line(line)
        if actions.end is not None and actions.end.reason not in GOOD_ENDS:
            news = actions.end.detail if actions.end.detail != self._told else ""
            detail = f": {one_line(news)}" if news else ""
            terminal.print_line(f"({one_line(actions.end.reason)}{detail})", "yellow")


def _author_prefix(event: Event) -> Text:
    return rendering.styled(f"{one_line(event.author)}: ", "bold")


def _is_displayed(part: Part) -> bool:
    is_hidden = isinstance(part, DataPart) and (part.private or part.name == CHOICES)
    return not (is_hidden or isinstance(part, ToolCallPart | ToolResultPart))
