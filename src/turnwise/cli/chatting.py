"""`turnwise chat`: a conversation at the terminal, or line by line from a pipe."""

import asyncio
import logging
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from turnwise.cli.options import (
    DEFAULT_USER,
    ConfigOption,
    ContextOption,
    RoleOption,
    SessionOption,
    UserOption,
    message_context,
)

if TYPE_CHECKING:
    from rich.text import Text

    from turnwise.assemble import App
    from turnwise.cli.conversation import Conversation
    from turnwise.cli.leave import Question
    from turnwise.facts.messages import MessageContext

QUESTION = "y or n (what stands behind n is the reason); anything else is a message, and the question stays open"
HELP = """/why      why the last message went to whom it went
/session  which session this is, and how to come back to it
/help     these lines
/quit     leave (also Ctrl-D)
Ctrl-C cancels the answer that is being given. A message that begins with / is sent by doubling it: //."""


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    app.command(short_help="Talk to the agents.")(chat)


def chat(
    config: ConfigOption = None,
    session: SessionOption = None,
    user: UserOption = DEFAULT_USER,
    context: ContextOption = None,
    role: RoleOption = None,
) -> None:
    """Talk to the agents. Before each answer a line says who answers, and why.

    When an agent asks whether it may call a tool, the next line answers: y, or n and perhaps a reason.
    """
    key = session or f"chat-{secrets.token_hex(3)}"
    given = message_context(context, role)
    with asyncio.Runner() as loop:
        code = _chat(loop, config, user, key, given, is_new=session is None)
    raise typer.Exit(code)


def _chat(
    loop: asyncio.Runner, config: Path | None, user: str, session: str, context: "MessageContext", *, is_new: bool
) -> int:
    from turnwise.assemble import load_app
    from turnwise.cli import terminal
    from turnwise.cli.conversation import Conversation
    from turnwise.cli.preparing import ready

    # What an agent raises is shown in the conversation itself.
    logging.getLogger("turnwise.runner").addHandler(logging.NullHandler())
    app = load_app(config)
    conversation = Conversation(app, user, session, context)
    interactive = terminal.is_interactive()
    if interactive:
        terminal.say_all(_beginning(app, user, session, context))
    try:
        loop.run(ready(app.runner))
        if not is_new:
            loop.run(conversation.look_back())
        while (line := _read(interactive, conversation.questions)) is not None:
            if line.startswith("/") and not line.startswith("//"):
                if not _obey(line, conversation):
                    break
            elif line.strip():
                loop.run(conversation.turn(line.removeprefix("/") if line.startswith("//") else line))
    finally:
        loop.run(app.runner.close())
    return 0 if interactive or not conversation.failures else 1


def _beginning(app: "App", user: str, session: str, context: "MessageContext") -> "Iterator[Text]":
    """With whom the user talks, as whom, where that is stored, and how to leave."""
    from turnwise.cli.clean import one_line
    from turnwise.cli.rendering import styled

    agents = len(app.runner.tree)
    roles = f" with the roles {', '.join(context.roles)}" if context.roles else ""
    yield styled(one_line(f"{app.runner.app}: {agents} agent{'' if agents == 1 else 's'} · session {session}"), "dim")
    yield styled(one_line(f"You speak as user {user}{roles}; the conversation is stored in {app.store}."), "dim")
    yield styled("Write a message. /help lists the commands, Ctrl-D leaves.", "dim")


def _read(interactive: bool, questions: "Sequence[Question]") -> str | None:
    """The next line; None at the end. Ctrl-C empties the line. While questions are open, the prompt says so."""
    from turnwise.cli import terminal
    from turnwise.cli.typing_in import typed

    if not interactive:
        return typed("", interactive=False)
    if questions:
        terminal.say(f"{questions[0].text} {QUESTION}" if len(questions) > 1 else QUESTION, "dim")
    while True:
        try:
            return typed("y/n> " if questions else "you> ", interactive=True)
        except KeyboardInterrupt:
            terminal.say("Ctrl-D or /quit leaves.", "dim")


def _obey(line: str, conversation: "Conversation") -> bool:
    """Does what a line that begins with a slash says; False to leave."""
    from turnwise.cli import terminal

    command = line.strip().lower()
    if command in {"/quit", "/exit", "/q"}:
        return False
    if command == "/why":
        conversation.explain()
    elif command == "/session":
        conversation.describe()
    elif command in {"/help", "/?"}:
        terminal.say(HELP)
    else:
        fix = "/help lists them; // sends a message that begins with /."
        terminal.complain("usage", f"There is no command {command.split()[0]}.", fix)
    return True
