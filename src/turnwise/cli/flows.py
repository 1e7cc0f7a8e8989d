"""`turnwise flow`: tasks that agents do together; run, shown and gone on with."""

import asyncio
import secrets
import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from turnwise.cli.exits import OK, UsageProblem
from turnwise.cli.options import (
    DEFAULT_USER,
    ConfigOption,
    ContextOption,
    SessionOption,
    UserOption,
    message_context,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from turnwise.assemble import App
    from turnwise.cli.flow_talk import FlowTalk
    from turnwise.facts.messages import MessageContext
    from turnwise.facts.sessions import SessionKey
    from turnwise.facts.tree import AgentTree
    from turnwise.flows.graph import Graph
    from turnwise.flows.kinds import AnyFlow
    from turnwise.flows.record import FlowRecord, Unplanned

PAGE_EVENTS = 500
BEGIN = "Begin."

app = typer.Typer(
    help="Run, show and resume flows: tasks that agents do together.", rich_markup_mode=None, no_args_is_help=True
)

FlowArgument = Annotated[str, typer.Argument(metavar="FLOW", help="The flow's name.")]


class Format(StrEnum):
    """What a flow is shown as."""

    TERMINAL = "terminal"
    MERMAID = "mermaid"
    SVG = "svg"


class _Shown(NamedTuple):
    """What there is to show. graph: the tasks, None when nobody knows them. run: how the last one stands; None = none is asked
    for.
    """

    flow: "AnyFlow"
    tree: "AgentTree"
    graph: "Graph | None"
    run: "FlowRecord | Unplanned | None" = None


@app.command(short_help="Run a flow.")
def run(
    flow: FlowArgument,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="What it is about, in quotes.")] = BEGIN,
    config: ConfigOption = None,
    session: SessionOption = None,
    user: UserOption = DEFAULT_USER,
    context: ContextOption = None,
) -> None:
    """Run a flow. Its answer goes to standard output; what happens, to standard error, as it happens.

    When an agent asks something, the next line answers: at the terminal, or of standard input. When nobody answers, the run
    waits, and `turnwise flow resume` goes on with it. Exit code 1 when it failed, or ran into a limit.
    """
    from turnwise.cli.clean import whole

    given = message_context(context)
    with asyncio.Runner() as loop:
        code = _run(loop, config, flow, whole(message), user, session or f"flow-{secrets.token_hex(3)}", given)
    raise typer.Exit(code)


def _run(
    loop: asyncio.Runner, config: Path | None, name: str, message: str, user: str, session: str, context: "MessageContext"
) -> int:
    from turnwise.assemble import load_app
    from turnwise.cli import terminal
    from turnwise.cli.flow_talk import FlowTalk

    app = load_app(config)
    try:
        flow, key = _flow(app, name), app.runner.key(user, session)
        loop.run(_refuse(app, flow, key, context))
        terminal.note(f"{flow.card.name} · session {session}")
        talk = FlowTalk(app.runner, flow, key, context)
        loop.run(talk.send(message))
        return _talk(loop, talk)
    finally:
        loop.run(app.runner.close())


def _talk(loop: asyncio.Runner, talk: "FlowTalk") -> int:
    """Answers what is asked, as long as somebody does, and tells how it ended."""
    from turnwise.cli import terminal
    from turnwise.cli.flow_talk import LEAVE
    from turnwise.cli.typing_in import typed

    interactive = terminal.is_interactive()
    while (asked := loop.run(talk.asked())) is not None:
        talk.ask(asked)
        answer = None
        while answer is None:
            if asked.leave is not None and interactive:
                terminal.note(LEAVE)
            try:
                line = typed("y/n> " if asked.leave else "you> ", interactive=interactive)
            except KeyboardInterrupt:
                talk.finish()
                raise
            if line is None:
                return talk.finish()
            answer = asked.answer(line)
        loop.run(talk.send(answer))
    return talk.finish()


async def _refuse(app: "App", flow: "AnyFlow", key: "SessionKey", context: "MessageContext") -> None:
    """Raises what speaks against a new run: it may not be chosen, or one of this session waits for an answer."""
    from turnwise.facts.errors import SessionMissing

    name = flow.card.name
    selection = await app.runner.select(BEGIN, user=key.user, context=context.model_copy(update={"direct_agent_id": name}))
    if selection.agent != name:
        ignored = [why.rpartition(": ")[2] for verdict in selection.verdicts for why in verdict.ignored]
        problem = f"The flow {name!r} cannot be run by itself."
        raise UsageProblem(problem, fix=f"{ignored[0][:1].upper()}{ignored[0][1:]}." if ignored else "")
    try:
        head = (await app.runner.sessions.get(key)).head
    except SessionMissing:
        return
    if any(open_.agent == name and open_.waits for open_ in head.invocations.values()):
        problem = f"A run of {name!r} waits for an answer in session {key.id!r}."
        raise UsageProblem(problem, fix="Go on with `turnwise flow resume`, or run it in another session.")


@app.command(short_help="Show what a flow is made of, or how its last run stands.")
def show(
    flow: FlowArgument,
    config: ConfigOption = None,
    session: SessionOption = None,
    user: UserOption = DEFAULT_USER,
    format_: Annotated[Format, typer.Option("--format", "-f", help="As what.")] = Format.TERMINAL,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there.")] = None,
) -> None:
    """Show what a flow is made of; with a session, how its last run there stands."""
    from turnwise.cli import terminal
    from turnwise.cli.clean import clean
    from turnwise.cli.flow_talk import resumption

    shown = asyncio.run(_looked_up(config, flow, user, session))
    if format_ is Format.TERMINAL and output is None:
        terminal.say_all(_lines(shown))
        if shown.run is not None and shown.run.end is None and session is not None:
            terminal.note(f"It has not ended. Go on with: {resumption(user, session)}")
        return
    text = _drawn(shown, format_)
    if output is None:
        terminal.write(clean(text))
        return
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise UsageProblem(f"{output} cannot be written: {error.strerror}.", fix="Choose another file.") from None
    terminal.note(f"wrote {output}")


async def _looked_up(config: Path | None, name: str, user: str, session: str | None) -> _Shown:
    from turnwise.cli.running import running

    async with running(config) as turnwise:
        flow, tree = _flow(turnwise, name), turnwise.runner.tree
        if session is None:
            return _Shown(flow, tree, flow.graph)
        return _Shown(flow, tree, *await _last_run(turnwise, flow, turnwise.runner.key(user, session)))


def _drawn(shown: _Shown, format_: Format) -> str:
    """The text of a picture. UsageProblem when nobody knows what there is to draw."""
    from turnwise.flows.drawing.mermaid import mermaid
    from turnwise.flows.drawing.svg import svg
    from turnwise.flows.record import Unplanned

    if format_ is Format.TERMINAL:
        return "".join(f"{line.plain}\n" for line in _lines(shown))
    name = shown.flow.card.name
    if isinstance(shown.run, Unplanned):
        raise UsageProblem(f"The last run of {name!r} has no plan, so no tasks.", fix="See how it stands, without --format.")
    if shown.graph is None:
        raise UsageProblem(f"The tasks of {name!r} are not known before it runs.", fix="Draw a run of it, with --session.")
    return (svg if format_ is Format.SVG else mermaid)(shown.graph, shown.run)


def _lines(shown: _Shown) -> "Iterator[Text]":
    from turnwise.cli.flow_lines import made_of, standing, without_tasks
    from turnwise.flows.record import Unplanned

    if isinstance(shown.run, Unplanned):
        return without_tasks(shown.run)
    if shown.run is None or shown.graph is None:
        return made_of(shown.flow, shown.tree)
    return standing(shown.graph, shown.run)


async def _last_run(app: "App", flow: "AnyFlow", key: "SessionKey") -> "tuple[Graph | None, FlowRecord | Unplanned]":
    """The last run of that flow in the session, and its tasks, if there are any yet. SessionMissing, InvocationMissing."""
    from turnwise.facts.errors import InvocationMissing
    from turnwise.flows.record import Reading

    await app.runner.sessions.get(key)
    reading, after = Reading(flow.card.name, flow.graph), 0
    while page := await app.runner.sessions.events(key, after=after, limit=PAGE_EVENTS):
        for event in page:
            reading.add(event)
        after = page[-1].sequence or after
    if reading.unplanned is not None:
        return None, reading.unplanned
    if reading.record is None:
        problem = f"The flow {flow.card.name!r} never ran in session {key.id!r}."
        command = shlex.join(["turnwise", "flow", "run", flow.card.name, "--session", key.id])
        raise InvocationMissing(problem, fix=f"Run it there: {command}" if flow.card.routable else "")
    return reading.graph, reading.record


@app.command(short_help="Go on with a run that waits, or was left.")
def resume(
    session: Annotated[str, typer.Option("--session", "-s", metavar="ID", help="The session.")],
    config: ConfigOption = None,
    user: UserOption = DEFAULT_USER,
    context: ContextOption = None,
) -> None:
    """Go on with the last run of a session: with what waits for an answer, or with what a dead process left.

    A run that another process is busy with is only watched.
    """
    given = message_context(context)
    with asyncio.Runner() as loop:
        code = _resume(loop, config, user, session, given)
    raise typer.Exit(code)


def _resume(loop: asyncio.Runner, config: Path | None, user: str, session: str, context: "MessageContext") -> int:
    from turnwise.assemble import load_app
    from turnwise.cli import terminal
    from turnwise.cli.flow_talk import FlowTalk

    app = load_app(config)
    try:
        key = app.runner.key(user, session)
        head = loop.run(app.runner.sessions.get(key)).head
        open_ = {id_: each for id_, each in head.invocations.items() if each.agent in app.flows}
        if not open_:
            terminal.note(f"No run of a flow is open in session {session}.")
            return OK
        invocation = max(open_, key=lambda id_: open_[id_].began)
        talk = FlowTalk(app.runner, app.flows[open_[invocation].agent], key, context)
        terminal.note(f"{open_[invocation].agent} · session {session}")
        loop.run(talk.look_back(invocation))
        if open_[invocation].state == "running":
            loop.run(talk.attach(invocation))
        return _talk(loop, talk)
    finally:
        loop.run(app.runner.close())


def _flow(app: "App", name: str) -> "AnyFlow":
    """The flow of that name. UsageProblem when there is none."""
    from turnwise.facts.spelling import did_you_mean

    if name in app.flows:
        return app.flows[name]
    if name not in app.runner.tree:
        raise UsageProblem(f"There is no flow {name!r}.", fix=did_you_mean(name, app.flows))
    kind = app.runner.tree.card(name).kind
    if kind == "flow":
        raise UsageProblem(f"What {name!r} does is not known here.", fix="Send it a message with `turnwise chat`.")
    raise UsageProblem(f"The agent {name!r} is no flow, but of kind {kind!r}.", fix=did_you_mean("", app.flows))
