"""`turnwise chat`: a conversation at the terminal, or line by line from a pipe."""

import asyncio
import logging
import secrets
from collections.abc import Sequence
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
    from turnwise.facts.messages import MessageContext
    from turnwise.facts.waits import Wait

QUESTION = "y, or n and perhaps a reason; any other line is sent as a message, and the question stays open"


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command(short_help="Talk to the agents.")(chat)


def chat(
    config: ConfigOption = None,
    session: SessionOption = None,
    user: UserOption = DEFAULT_USER,
    context: ContextOption = None,
    role: RoleOption = None,
) -> None:
    """Talk to the agents. Before each answer, a line shows which agent answers and why.

    If an agent asks for approval of a tool call, answer with y, or with n and optionally a reason.
    """
    key = session or f"chat-{secrets.token_hex(3)}"
    given = message_context(context, role)
    with asyncio.Runner() as loop:
        code = _chat(loop, config, user, key, given, is_new=session is None)
    raise typer.Exit(code)


def _chat(
    loop: asyncio.Runner, config: Path | None, user: str, session: str, context: "MessageContext", *, is_new: bool
) -> int:
    """Runs the conversation: prompts, messages and slash commands, until the input ends. Returns the exit code."""
    from turnwise.assemble import load_app
    from turnwise.cli import terminal
    from turnwise.cli.conversation import Conversation, _intro_lines, _run_slash_command
    from turnwise.cli.progress_bars import prepare

    # Exceptions of agents are shown in the conversation, so they are not logged as well.
    logging.getLogger("turnwise.runner").addHandler(logging.NullHandler())
    app = load_app(config)
    conversation = Conversation(app, user, session, context)
    interactive = terminal.is_interactive()
    if interactive:
        terminal.print_lines(_intro_lines(app, user, session, context))
    try:
        loop.run(prepare(app.runner))
        if not is_new:
            loop.run(conversation.look_back())
        while (line := _read_next_line(interactive, conversation.questions)) is not None:
            if line.startswith("/") and not line.startswith("//"):
                if not _run_slash_command(line, conversation):
                    break
            elif line.strip():
                loop.run(conversation.turn(line.removeprefix("/") if line.startswith("//") else line))
    finally:
        loop.run(app.runner.close())
    return 0 if interactive or not conversation.failures else 1


def _read_next_line(interactive: bool, questions: "Sequence[Wait]") -> str | None:
    """Reads the next line. Returns None at the end of the input. Ctrl-C clears the line. The prompt shows whether a question is
    open.
    """
    from turnwise.cli import terminal
    from turnwise.cli.line_input import read_line

    if not interactive:
        return read_line("", interactive=False)
    if questions:
        terminal.print_line(f"{questions[0].text} {QUESTION}" if len(questions) > 1 else QUESTION, "dim")
    while True:
        try:
            return read_line("y/n> " if questions else "you> ", interactive=True)
        except KeyboardInterrupt:
            terminal.print_line("Ctrl-D or /quit leaves.", "dim")
