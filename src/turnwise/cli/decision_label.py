"""`turnwise decisions label`: says which agent should have been chosen."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.exits import UsageProblem
from turnwise.cli.options import DEFAULT_USER, ConfigOption, JsonOption, UserOption, agent_names

if TYPE_CHECKING:
    from turnwise.facts.labels import Label


def register(app: typer.Typer) -> None:
    """Adds the command to `turnwise decisions`."""
    app.command("label", short_help="Say which agent should have been chosen.")(label)


def label(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")],
    sequence: Annotated[int, typer.Argument(metavar="NUMBER", min=1, help="The number of the event that holds the decision.")],
    agent: Annotated[
        str | None,
        typer.Argument(metavar="[AGENT]", help="The agent that should have been chosen.", autocompletion=agent_names),
    ] = None,
    nobody: Annotated[bool, typer.Option("--nobody", help="No agent should have been chosen.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the labels of all operators.")] = False,
    unsure: Annotated[bool, typer.Option("--unsure", help="You doubt the label: nothing is learned from it.")] = False,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="A remark for people.")] = "",
    picked: Annotated[
        str | None, typer.Option("--picked", metavar="HOW", help="How the review picked it: random, doubt or complaint.")
    ] = None,
    probability: Annotated[
        float | None,
        typer.Option("--probability", min=0, max=1, metavar="0..1", help="The probability with which the review picked it."),
    ] = None,
    config: ConfigOption = None,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Label a decision as an operator: which agent should have been chosen. A new label replaces the one before."""
    if (agent is not None) + nobody + remove != 1:
        raise UsageProblem("The label is missing, or there are several.", fix="Name an agent, or pass --nobody or --remove.")
    given = None if remove else _build_label(agent, unsure, note, picked, probability)
    asyncio.run(_label(config, user, session, sequence, given, as_json))


def _build_label(agent: str | None, unsure: bool, note: str, picked: str | None, probability: float | None) -> "Label":
    """Builds the label from the options. Raises UsageProblem for an invalid value."""
    from pydantic import ValidationError

    from turnwise.cli.options import ACTOR
    from turnwise.facts.labels import Label

    try:
        return Label(author=ACTOR, agent=agent, unsure=unsure, note=note, picked=picked, probability=probability)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageProblem(f"--{first['loc'][0]}: {first['msg']}.", fix="Pass another value.") from None


async def _label(config: Path | None, user: str, session: str, sequence: int, given: "Label | None", as_json: bool) -> None:
    """Stores or removes the operator's label of a decision, and prints the result."""
    from turnwise.access.records import record_store_of
    from turnwise.cli import terminal
    from turnwise.cli.options import ACTOR, open_app

    async with open_app(config) as turnwise:
        runner = turnwise.runner
        key = runner.key(user, session)
        if given is None:
            await runner.store.decisions.label(key, sequence, None, actor=ACTOR)
        else:
            if given.agent is not None and given.agent not in runner.tree:
                raise UsageProblem(f"There is no agent {given.agent[:64]!r}.", fix="`turnwise tree show` lists the agents.")
            await record_store_of(runner.store).labels.put(key, sequence, given, actor=ACTOR)
    if as_json:
        shown = None if given is None else given.model_dump(mode="json", exclude={"at"})
        terminal.print_json({"session": session, "sequence": sequence, "label": shown})
        return
    said = "has no label of an operator now" if given is None else f"is labelled {given.agent or 'nobody'}"
    terminal.print_line(f"Decision #{sequence} of session {session} {said}.")
