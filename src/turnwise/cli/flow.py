"""`turnwise flow`: runs, shows and resumes flows."""

import asyncio
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from turnwise.cli.exits import OK, UsageProblem
from turnwise.cli.options import (
    DEFAULT_USER,
    ConfigOption,
    ContextOption,
    JsonOption,
    RoleOption,
    RunLocation,
    SessionOption,
    UserOption,
    flow_names,
    message_context,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from turnwise.assemble import App
    from turnwise.cli.flow_run import FlowConversation
    from turnwise.facts.messages import MessageContext
    from turnwise.facts.sessions import Session, SessionKey
    from turnwise.facts.tree import AgentTree
    from turnwise.flows.planned import AnyFlow
    from turnwise.flows.record import FlowRecord, UnplannedRun
    from turnwise.flows.tasks import Graph

PAGE_EVENTS = 500
DEFAULT_MESSAGE = "Begin."

app = typer.Typer(
    help="Run, show and resume flows: tasks that agents do together.", rich_markup_mode=None, no_args_is_help=True
)

Format = Literal["terminal", "mermaid", "svg"]

FlowArgument = Annotated[str, typer.Argument(metavar="FLOW", help="The flow's name.", autocompletion=flow_names)]


class _FlowDetails(NamedTuple):
    """A flow and, if a session was named, its last run there."""

    flow: "AnyFlow"
    tree: "AgentTree"
    graph: "Graph | None"
    """The tasks; None if they are not known before a run."""
    run: "FlowRecord | UnplannedRun | None" = None
    """The last run's status; None if no session was named."""


@app.command(short_help="Run a flow.")
def run(
    flow: FlowArgument,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="The message to the flow, in quotes.")] = DEFAULT_MESSAGE,
    config: ConfigOption = None,
    session: SessionOption = None,
    user: UserOption = DEFAULT_USER,
    context: ContextOption = None,
    role: RoleOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a flow. Prints its answer on standard output, and its progress on standard error.

    If an agent asks a question, the next line of the terminal or of standard input answers it. Without an answer the run waits;
    `turnwise flow resume` continues it. Exits with 1 if the run fails or reaches a limit.
    """
    from turnwise.cli.terminal import replace_undecodable

    given = message_context(context, role)
    with asyncio.Runner() as loop:
        place = RunLocation(config, user, session or f"flow-{secrets.token_hex(3)}")
        code = _run(loop, place, flow, replace_undecodable(message), given, as_json=as_json)
    raise typer.Exit(code)


def _run(loop: asyncio.Runner, place: RunLocation, name: str, message: str, context: "MessageContext", *, as_json: bool) -> int:
    """Runs a flow with a message, asks its questions at the terminal, and returns the exit code."""
    from turnwise.assemble import load_app
    from turnwise.cli import terminal
    from turnwise.cli.flow_run import FlowConversation

    app = load_app(place.config)
    try:
        flow, key = _find_flow(app, name), app.runner.key(place.user, place.session)
        loop.run(_check_can_run(app, flow, key, context, place))
        terminal.print_note(f"{flow.card.name} · session {place.session}")
        conversation = FlowConversation(app.runner, flow, key, context, place.config, as_json=as_json)
        loop.run(conversation.send(message))
        return _answer_questions(loop, conversation)
    finally:
        loop.run(app.runner.close())


def _answer_questions(loop: asyncio.Runner, conversation: "FlowConversation") -> int:
    """Asks the run's questions until it ends or the input does, and reports the end. Returns the exit code."""
    from turnwise.cli import terminal
    from turnwise.cli.flow_run import APPROVAL_HINT
    from turnwise.cli.line_input import read_line

    interactive = terminal.is_interactive()
    while (asked := loop.run(conversation.asked())) is not None:
        conversation.ask(asked)
        answer = None
        while answer is None:
            if asked.leave is not None and interactive:
                terminal.print_note(APPROVAL_HINT)
            try:
                line = read_line("y/n> " if asked.leave else "you> ", interactive=interactive)
            except KeyboardInterrupt:
                conversation.finish()
                raise
            if line is None:
                return conversation.finish()
            answer = asked.answer(line)
        loop.run(conversation.send(answer))
    return conversation.finish()


async def _check_can_run(app: "App", flow: "AnyFlow", key: "SessionKey", context: "MessageContext", place: RunLocation) -> None:
    """Raises a UsageProblem if the flow cannot be selected directly, or a run of it waits in this session."""
    from turnwise.facts.errors import SessionMissing

    name = flow.card.name
    selection = await app.runner.select(DEFAULT_MESSAGE, user=key.user, context=context.replace(direct_agent_id=name))
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
        raise UsageProblem(problem, fix=f"Continue it, or run the flow in another session: {place.resume}")


@app.command(short_help="Show the tasks of a flow, or the status of its last run.")
def show(
    flow: FlowArgument,
    config: ConfigOption = None,
    session: SessionOption = None,
    user: UserOption = DEFAULT_USER,
    format_: Annotated[Format, typer.Option("--format", "-f", help="The output format.")] = "terminal",
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the tasks of a flow; with a session, the status of its last run there."""
    from turnwise.cli import terminal
    from turnwise.cli.rendering import wrap
    from turnwise.cli.terminal import clean

    if as_json and (output is not None or format_ != "terminal"):
        raise UsageProblem("--json cannot be combined with --format or --output.", fix="Remove one of them.")
    shown = asyncio.run(_load_details(config, flow, user, session))
    if as_json:
        terminal.print_json(_data(shown, user, session))
        return
    if format_ == "terminal" and output is None:
        width = terminal.width()
        terminal.print_lines(wrap(_lines(shown, width), width))
        if shown.run is not None and shown.run.end is None and session is not None:
            terminal.print_note(f"It has not ended. Continue with: {RunLocation(config, user, session).resume}")
        return
    text = _drawing(shown, format_)
    if output is None:
        terminal.write(clean(text))
        return
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise UsageProblem(f"{output} cannot be written: {error.strerror}.", fix="Choose another file.") from None
    terminal.print_note(f"wrote {output}")


async def _load_details(config: Path | None, name: str, user: str, session: str | None) -> _FlowDetails:
    """Returns the flow's graph, and with a session its last run."""
    from turnwise.cli.options import open_app

    async with open_app(config) as turnwise:
        flow, tree = _find_flow(turnwise, name), turnwise.runner.tree
        if session is None:
            return _FlowDetails(flow, tree, flow.graph)
        key = turnwise.runner.key(user, session)
        return _FlowDetails(flow, tree, *await _last_run(turnwise, flow, key, RunLocation(config, user, session)))


def _data(shown: _FlowDetails, user: str, session: str | None) -> dict[str, Any]:
    """The flow's run, or its definition, as JSON data."""
    from turnwise.cli.flow_output import definition_data, run_data
    from turnwise.flows.flow import Flow

    if shown.run is not None:
        return {"session": session, "user": user, **run_data(shown.run)}
    agents = shown.flow.design.agents if isinstance(shown.flow, Flow) else ()
    return definition_data(shown.flow.card.name, shown.graph, agents)


def _drawing(shown: _FlowDetails, format_: Format) -> str:
    """The drawing of the flow as text.

    Raises:
        UsageProblem: if its tasks are not known.
    """
    from turnwise.flows.drawing import mermaid, svg
    from turnwise.flows.record import UnplannedRun

    if format_ == "terminal":
        return "".join(f"{line.plain}\n" for line in _lines(shown))
    name = shown.flow.card.name
    if isinstance(shown.run, UnplannedRun):
        raise UsageProblem(f"The last run of {name!r} has no plan, so no tasks.", fix="See its status, without --format.")
    if shown.graph is None:
        raise UsageProblem(f"The tasks of {name!r} are not known before it runs.", fix="Draw a run of it, with --session.")
    return (svg if format_ == "svg" else mermaid)(shown.graph, shown.run)


def _lines(shown: _FlowDetails, width: int | None = None) -> "Iterator[Text]":
    """The lines for a terminal of that width; None = unlimited."""
    from turnwise.cli.flow_output import flow_lines, run_lines, unplanned_run_lines
    from turnwise.flows.record import UnplannedRun

    if isinstance(shown.run, UnplannedRun):
        return unplanned_run_lines(shown.run)
    if shown.run is None or shown.graph is None:
        return flow_lines(shown.flow, shown.tree, width)
    return run_lines(shown.graph, shown.run, width)


async def _last_run(
    app: "App", flow: "AnyFlow", key: "SessionKey", place: RunLocation
) -> "tuple[Graph | None, FlowRecord | UnplannedRun]":
    """The last run of that flow in the session, with its tasks, if they are known yet.

    Raises:
        SessionMissing: there is no such session.
        InvocationMissing: the flow never ran in it.
    """
    from turnwise.facts.errors import InvocationMissing
    from turnwise.flows.record import FlowReader

    await _get_session(app, key, place)
    reading, after = FlowReader(flow.card.name, flow.graph), 0
    while page := await app.runner.sessions.events(key, after=after, limit=PAGE_EVENTS):
        for event in page:
            reading.add(event)
        after = page[-1].sequence or after
    if reading.unplanned is not None:
        return None, reading.unplanned
    if reading.record is None:
        problem = f"The flow {flow.card.name!r} never ran in session {key.id!r}."
        raise InvocationMissing(problem, fix=f"Run it there: {place.run(flow.card.name)}" if flow.card.routable else "")
    return reading.graph, reading.record


async def _get_session(app: "App", key: "SessionKey", place: RunLocation) -> "Session":
    """Returns the session.

    Raises:
        SessionMissing: with the command that lists the sessions.
    """
    from turnwise.facts.errors import SessionMissing

    try:
        return await app.runner.sessions.get(key)
    except SessionMissing as missing:
        raise SessionMissing(missing.problem, fix=f"See which there are: {place.sessions}") from None


@app.command(short_help="Continue a run that waits, or whose process died.")
def resume(
    session: Annotated[str, typer.Option("--session", "-s", metavar="ID", help="The session.")],
    config: ConfigOption = None,
    user: UserOption = DEFAULT_USER,
    context: ContextOption = None,
    role: RoleOption = None,
    as_json: JsonOption = False,
) -> None:
    """Continue the last run of a session: one that waits for an answer, or one whose process died.

    A run that another process is executing is only watched.
    """
    given = message_context(context, role)
    with asyncio.Runner() as loop:
        code = _resume(loop, RunLocation(config, user, session), given, as_json=as_json)
    raise typer.Exit(code)


def _resume(loop: asyncio.Runner, place: RunLocation, context: "MessageContext", *, as_json: bool) -> int:
    """Continues the newest open run of a flow in the session, and returns the exit code."""
    from turnwise.assemble import load_app
    from turnwise.cli import terminal
    from turnwise.cli.flow_run import FlowConversation

    app, session = load_app(place.config), place.session
    try:
        key = app.runner.key(place.user, session)
        found = loop.run(_get_session(app, key, place))
        open_ = {id_: each for id_, each in found.head.invocations.items() if each.agent in app.flows}
        if not open_:
            if as_json:
                terminal.print_json({"session": session, "user": place.user, "flow": None})
            else:
                terminal.print_note(f"No run of a flow is open in session {session}.")
            return OK
        invocation = max(open_, key=lambda id_: open_[id_].began)
        flow = app.flows[open_[invocation].agent]
        conversation = FlowConversation(app.runner, flow, key, context, place.config, as_json=as_json)
        terminal.print_note(f"{open_[invocation].agent} · session {session}")
        loop.run(conversation.look_back(invocation))
        if open_[invocation].state == "running":
            if found.holder is not None:
                seconds = app.runner.process.lease_seconds
                told = "Another process executes this run, so it is only watched"
                terminal.print_note(f"{told}; if that process is dead, the run continues here within {seconds:g} seconds.")
            loop.run(conversation.attach(invocation))
        return _answer_questions(loop, conversation)
    finally:
        loop.run(app.runner.close())


def _find_flow(app: "App", name: str) -> "AnyFlow":
    """Returns the flow of that name.

    Raises:
        UsageProblem: if there is none.
    """
    from turnwise.facts.hints import did_you_mean

    if name in app.flows:
        return app.flows[name]
    if name not in app.runner.tree:
        raise UsageProblem(f"There is no flow {name!r}.", fix=did_you_mean(name, app.flows))
    kind = app.runner.tree.card(name).kind
    if kind == "flow":
        raise UsageProblem(f"What {name!r} does is not known here.", fix="Send it a message with `turnwise chat`.")
    raise UsageProblem(f"The agent {name!r} is no flow, but of kind {kind!r}.", fix=did_you_mean("", app.flows))
