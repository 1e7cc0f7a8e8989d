"""`turnwise sessions`: lists, shows, explains, cancels, rewinds, forks and deletes sessions."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.exits import UsageProblem
from turnwise.cli.options import DEFAULT_USER, ConfigOption, EngineOption, JsonOption, UserOption

if TYPE_CHECKING:
    from pathlib import Path

    from turnwise.facts.sessions import SessionKey
    from turnwise.runner import Runner

app = typer.Typer(
    help="List, show, explain, cancel, rewind, fork and delete sessions.", rich_markup_mode=None, no_args_is_help=True
)

SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
HiddenOption = Annotated[bool, typer.Option("--hidden", help="Also show events that a rewind or a new attempt hides.")]
TURN_HELP = "A turn: the number of any event in it, or its invocation id."


@app.command("list")
def list_sessions(
    config: ConfigOption = None,
    user: Annotated[str | None, typer.Option("--user", "-u", metavar="USER", help="Only sessions of this user.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many sessions.")] = 50,
    after: Annotated[
        str | None, typer.Option("--after", metavar="CURSOR", help="Continue where the previous page ended.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List sessions by user and id."""
    asyncio.run(_list(config, user, limit, after, as_json))


async def _list(config: "Path | None", user: str | None, limit: int, after: str | None, as_json: bool) -> None:
    """Prints a page of sessions."""
    from turnwise.cli import terminal
    from turnwise.cli.options import open_app
    from turnwise.cli.session_output import session_data, session_table

    async with open_app(config) as turnwise:
        runner = turnwise.runner
        page = await runner.store.list(runner.app, user=user, after=after, limit=limit)
    if as_json:
        terminal.print_json({"sessions": [session_data(info) for info in page.items], "next": page.next})
        return
    if not page.items:
        terminal.print_note(
            f"There are no sessions of {runner.app}{f' and user {user}' if user else ''}{' after that' if after else ''}."
        )
        return
    terminal.print_lines(session_table(page.items, terminal.width()))
    if page.next is not None:
        terminal.print_note(f"There are more: --after {page.next}")


@app.command(short_help="Show the messages of a session.")
def show(
    session: SessionArgument,
    config: ConfigOption = None,
    user: UserOption = DEFAULT_USER,
    last: Annotated[int | None, typer.Option("--last", min=1, help="Only this many of the newest events.")] = None,
    hidden: HiddenOption = False,
    thinking: Annotated[bool, typer.Option("--thinking", help="Also show the models' thoughts.")] = False,
    engine: EngineOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the messages of a session, with the events' numbers and the models' usage, and why the session waits.

    With --json, one event per line, and a last line with the key `pending` if the session waits. With --engine, also says
    what is wrong with the engine.
    """
    asyncio.run(_show(config, user, session, last, engine, hidden=hidden, thinking=thinking, as_json=as_json))


async def _show(
    config: "Path | None",
    user: str,
    session: str,
    last: int | None,
    engine: str | None,
    *,
    hidden: bool,
    thinking: bool,
    as_json: bool,
) -> None:
    """Prints the session's transcript, the last events or all, and what the models cost."""
    from turnwise.cli import session_output, terminal
    from turnwise.cli.batch_run import event_json
    from turnwise.cli.options import open_app
    from turnwise.cli.rendering import UsageTotal, styled, wrap
    from turnwise.cli.terminal import one_line, safe_json

    async with open_app(config) as turnwise:
        runner, key = turnwise.runner, turnwise.runner.key(user, session)
        head = await runner.sessions.get(key)
        if not as_json:
            terminal.print_lines(wrap([styled(session_output.session_line(head), "dim")], terminal.width()))
        spending = UsageTotal()
        async for entry in session_output.read_log(runner.sessions, key, last=last, hidden=hidden):
            if as_json:
                about = session_output.visibility_data(entry) if hidden else {}
                terminal.write(safe_json(event_json(user, session, entry.event, **about)) + "\n")
            else:
                terminal.print_lines(wrap(session_output.transcript_lines(entry, thinking=thinking), terminal.width()))
                spending.add(entry.event)
        terminal.print_lines(wrap(spending.lines(), terminal.width()))
        found = await session_output.why_waiting(runner, head, engine)
    if as_json and found:
        terminal.print_json(
            {"user": user, "session": session, "pending": [session_output.pending_data(each) for each in found]}
        )
    elif not as_json:
        terminal.print_lines(wrap([styled(one_line(each.detail), "yellow") for each in found], terminal.width()))


@app.command(short_help="Show every decision, and why.")
def explain(
    session: SessionArgument, config: ConfigOption = None, user: UserOption = DEFAULT_USER, as_json: JsonOption = False
) -> None:
    """Show every decision with all verdicts, exclusions, handoffs, waits, ends, changes by guardrails, and the models' usage.
    Rewound events are marked.

    If a process died during an answer, all attempts are shown: their content, the steps that were kept, and the final answer.
    """
    asyncio.run(_explain(config, user, session, as_json))


async def _explain(config: "Path | None", user: str, session: str, as_json: bool) -> None:
    """Prints the session's course: each message with its decision, and the events without texts."""
    from turnwise.cli import session_output, terminal
    from turnwise.cli.options import open_app
    from turnwise.cli.rendering import UsageTotal, styled, wrap

    async with open_app(config) as turnwise:
        runner, key = turnwise.runner, turnwise.runner.key(user, session)
        head = await runner.sessions.get(key)
        if not as_json:
            terminal.print_lines(wrap([styled(session_output.session_line(head), "dim")], terminal.width()))
        spending = UsageTotal()
        async for entry in session_output.read_log(runner.sessions, key, hidden=True):
            if as_json:
                data = session_output.course_data(entry)
                if data is not None:
                    terminal.print_json(data)
            else:
                terminal.print_lines(wrap(session_output.course_lines(entry), terminal.width()))
                spending.add(entry.event)
        terminal.print_lines(wrap(spending.lines(), terminal.width()))


@app.command()
def cancel(
    session: SessionArgument,
    turn: Annotated[
        str | None,
        typer.Argument(metavar="TURN", help=TURN_HELP + " By default the running one, else the newest that waits."),
    ] = None,
    config: ConfigOption = None,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Stop a running answer, in whichever process it runs, or end a question that waits for a reply."""
    asyncio.run(_cancel(config, user, session, turn, as_json))


async def _cancel(config: "Path | None", user: str, session: str, turn: str | None, as_json: bool) -> None:
    """Stops the running answer, or ends the newest wait, or that of `turn`."""
    from turnwise.cli import terminal
    from turnwise.cli.options import open_app

    async with open_app(config) as turnwise:
        runner, key = turnwise.runner, turnwise.runner.key(user, session)
        open_ = (await runner.sessions.get(key)).head.invocations
        newest = max(open_, key=lambda id_: (open_[id_].state == "running", open_[id_].began), default=None)
        invocation = await _invocation(runner, key, turn) if turn is not None else newest
        if invocation is None or invocation not in open_:
            which = f"Turn {turn}" if turn is not None else f"Everything in session {session}"
            if as_json:
                terminal.print_json({"session": session, "cancelled": False, "invocation_id": invocation})
            else:
                terminal.print_note(f"{which} has ended already.")
            return
        await runner.sessions.cancel(key, invocation)
    if as_json:
        terminal.print_json({"session": session, "cancelled": True, "invocation_id": invocation})
        return
    what = "no longer waits" if open_[invocation].state == "waiting" else "was stopped"
    terminal.print_line(f"{open_[invocation].agent} {what}; the turn that began with #{open_[invocation].began} is over.")


@app.command()
def rewind(
    session: SessionArgument,
    turn: Annotated[str | None, typer.Argument(metavar="TURN", help=TURN_HELP + " By default the last.")] = None,
    config: ConfigOption = None,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Take a session back to before a turn. The hidden events stay in the log."""
    asyncio.run(_rewind(config, user, session, turn, as_json))


async def _rewind(config: "Path | None", user: str, session: str, turn: str | None, as_json: bool) -> None:
    """Rewinds the session to before a turn."""
    from turnwise.cli import terminal
    from turnwise.cli.options import open_app

    async with open_app(config) as turnwise:
        runner, key = turnwise.runner, turnwise.runner.key(user, session)
        invocation = await _invocation(runner, key, turn)
        first = (await runner.sessions.events(key, invocation_id=invocation, limit=1))[0].sequence
        await runner.sessions.rewind(key, invocation)
    if as_json:
        terminal.print_json({"session": session, "before": first, "invocation_id": invocation})
        return
    terminal.print_line(
        f"Session {session} is as it was before #{first}. `turnwise sessions show --hidden` still shows what came after."
    )


@app.command()
def fork(
    session: SessionArgument,
    new_id: Annotated[str, typer.Argument(metavar="NEW_ID", help="The id of the copy.")],
    before: Annotated[
        str | None, typer.Option("--before", metavar="TURN", help=TURN_HELP + " The copy ends before it.")
    ] = None,
    config: ConfigOption = None,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Copy a session, or the part before a turn, under a new id."""
    asyncio.run(_fork(config, user, session, new_id, before, as_json))


async def _fork(config: "Path | None", user: str, session: str, new_id: str, before: str | None, as_json: bool) -> None:
    """Copies the session, or the part before a turn, under a new id."""
    from turnwise.cli import terminal
    from turnwise.cli.options import open_app

    async with open_app(config) as turnwise:
        runner, key = turnwise.runner, turnwise.runner.key(user, session)
        await runner.sessions.get(key)
        invocation = await _invocation(runner, key, before) if before is not None else None
        copy = await runner.sessions.fork(key, runner.key(user, new_id).id, before_invocation=invocation)
    if as_json:
        terminal.print_json({"session": new_id, "of": session, "events": copy.last_sequence})
    else:
        terminal.print_line(f"Session {new_id} holds {copy.last_sequence} events of {session}.")


@app.command()
def delete(
    session: SessionArgument,
    config: ConfigOption = None,
    user: UserOption = DEFAULT_USER,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Confirm the deletion; required.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete a session with its log, decisions and artifacts. This cannot be undone."""
    asyncio.run(_delete(config, user, session, yes, as_json))


async def _delete(config: "Path | None", user: str, session: str, confirmed: bool, as_json: bool) -> None:
    """Deletes the session. Raises UsageProblem, and deletes nothing, if this is not confirmed."""
    from turnwise.cli import terminal
    from turnwise.cli.options import open_app

    async with open_app(config) as turnwise:
        runner, key = turnwise.runner, turnwise.runner.key(user, session)
        head = await runner.sessions.get(key)
        if not confirmed:
            problem = f"Session {session!r} of user {user!r} with its {head.last_sequence} events would be deleted for good."
            raise UsageProblem(problem, fix="Nothing was deleted. Pass --yes to confirm.")
        await runner.sessions.delete(key)
    if as_json:
        terminal.print_json({"session": session, "deleted": True, "events": head.last_sequence})
    else:
        terminal.print_line(f"Session {session} is deleted.")


async def _invocation(runner: "Runner", key: "SessionKey", turn: str | None) -> str:
    """Finds the invocation by an event's number or by its id; without either, that of the last message.

    Raises:
        InvocationMissing: if there is none.
    """
    from turnwise.facts.errors import InvocationMissing
    from turnwise.facts.events import USER

    if turn is None:
        recent = await runner.sessions.events(key, last=1_000)
        found = [event for event in recent if event.author == USER and event.content is not None]
        if not found:
            raise InvocationMissing(f"Session {key.id!r} has no message.", fix="There is nothing to take back.")
        return found[-1].invocation_id
    number = turn.removeprefix("#")
    if number.isdecimal():
        at = await runner.sessions.events(key, after=int(number) - 1, limit=1)
        if not at or at[0].sequence != int(number):
            fix = f"`turnwise sessions show {key.id}` lists the numbers."
            raise InvocationMissing(f"Session {key.id!r} has no visible event #{number}.", fix=fix)
        return at[0].invocation_id
    if not await runner.sessions.events(key, invocation_id=turn, limit=1):
        raise InvocationMissing(f"Session {key.id!r} has no turn {turn!r}.", fix="Name it by the number of an event in it.")
    return turn
