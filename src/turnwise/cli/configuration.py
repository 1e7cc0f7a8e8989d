"""Checks, tries and draws a configuration: `turnwise check`, `select`, `policy show`, `tree show` and `schema`."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli.options import (
    DEFAULT_USER,
    ConfigOption,
    ContextOption,
    JsonOption,
    RoleOption,
    SessionOption,
    UserOption,
    message_context,
    open_app,
)

if TYPE_CHECKING:
    from pydantic import JsonValue
    from rich.text import Text

    from turnwise.assemble import Report
    from turnwise.facts.messages import MessageContext
    from turnwise.facts.selections import Selection
    from turnwise.facts.tree import AgentCard, AgentTree
    from turnwise.selection.diagram import Format
    from turnwise.selection.policy import PolicySpec

DESCRIPTION_CHARACTERS = 60


def register(app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    app.command(short_help="Find every mistake in a configuration.")(check)
    app.command(short_help="Show who would answer a message, and why.")(select)
    app.command(short_help="Print the JSON schema of turnwise.yaml, for editors.")(schema)
    app.add_typer(policy_app, name="policy")
    app.add_typer(tree_app, name="tree")


def check(
    config: ConfigOption = None,
    as_json: JsonOption = False,
    definitions: Annotated[
        bool, typer.Option("--definitions", help="Open the store, and check the definitions in it: what they change.")
    ] = False,
) -> None:
    """Validate the whole configuration without running an agent or opening a store. Prints every mistake; exits with 1 if there
    is one.
    """
    from turnwise.assemble import check_app
    from turnwise.cli import terminal

    if definitions:
        asyncio.run(_check_definitions(config, as_json))
        return

    report = check_app(config)
    if as_json:
        terminal.print_json(_report_data(report))
        raise typer.Exit(1 if report.errors else 0)
    if report.tree is not None:
        terminal.print_lines(_agent_table(report.tree, report.models))
        terminal.print_line()
    if report.errors:
        for error in report.errors:
            terminal.show_error(error)
        count = len(report.errors)
        terminal.print_note(f"{count} mistake{'s' if count > 1 else ''} in {report.shown}", "bold red")
        raise typer.Exit(1)
    _print_ok(report)


async def _check_definitions(config: "Path | None", as_json: bool) -> None:
    """Prints which fields of which agents come from the database. Raises TurnwiseError if the definitions do not fit."""
    from turnwise.cli import terminal
    from turnwise.facts.errors import ConfigError
    from turnwise.ports.definitions import SERVED_POLICY

    async with open_app(config, serve=False) as app:
        if app.editor is None or app.sets is None:
            raise ConfigError("The session store of this app keeps no definitions.", fix="Use a SQL database as `store`.")
        served = await app.editor.store.served(app.editor.app)
        made = app.sets.of(served)
        made.cascade.close()
        newer = [each.name for each in (*served.agents, *served.policies) if each.unknown_fields]
        agents = {each.name: sorted(each.defined_fields) for each in served.agents if not each.unknown_fields}
        policy = any(each.name == SERVED_POLICY for each in served.policies)
    if as_json:
        defined = {"agents": agents, "policy": policy, "newer": newer}
        terminal.print_json({"ok": True, "revision": served.revision, "from_the_database": defined})
        return
    for name, fields in agents.items():
        terminal.print_line(f"{name}: {', '.join(fields) or 'nothing'} from the database")
    terminal.print_line(f"policy: from the {'database' if policy else 'configuration'}")
    for name in newer:
        terminal.print_note(f"{name}: not served, a newer Turnwise wrote it", "yellow")
    terminal.print_note(f"revision {served.revision}: {len(made.tree)} agents, {len(agents)} of them defined in the database")


def _report_data(report: "Report") -> "dict[str, Any]":
    """The report as JSON data."""
    from turnwise.selection.diagram import tree_rows

    cards = [] if report.tree is None else [report.tree.card(name) for name, _ in tree_rows(report.tree, report.tree.root)]
    agents = [
        {
            "name": card.name,
            "kind": card.kind,
            "parent": card.parent,
            "enabled": card.enabled,
            "model": report.models.get(card.name),
            "patterns": len(card.patterns),
            "examples": _examples(card),
            "description": card.description,
        }
        for card in cards
    ]
    return {
        "ok": not report.errors,
        "file": report.shown,
        "app": report.app,
        "errors": [{"code": error.code, "problem": error.problem, "fix": error.fix} for error in report.errors],
        "agents": agents,
        "policy": report.policy,
        "store": report.store,
        "artifacts": report.artifacts or None,
        "encoder": report.encoder or None,
        "phrases": report.phrases,
    }


def _examples(card: "AgentCard") -> int:
    return len(card.examples) + len(card.learned) + sum(len(skill.examples) for skill in card.skills)


def _agent_table(tree: "AgentTree", models: "Mapping[str, str]") -> "Iterator[Text]":
    """The table of the agents: tree, kind, model, counts of patterns and examples, description."""
    from turnwise.cli import rendering, terminal
    from turnwise.cli.rendering import fit_table
    from turnwise.cli.terminal import one_line
    from turnwise.selection.diagram import tree_rows

    rows = []
    for name, branch in tree_rows(tree, tree.root):
        card = tree.card(name)
        line = rendering.styled(branch, "dim").append(one_line(name), style="bold" if card.enabled else "dim strike")
        examples = _examples(card)
        about = rendering.styled(one_line(card.description, DESCRIPTION_CHARACTERS), "dim")
        model = [one_line(models.get(name, ""))] if models else []
        rows.append((line, card.kind, *model, str(len(card.patterns) or ""), str(examples or ""), about))
    columns = ("agent", "kind", *(["model"] if models else []), "patterns", "examples", "description")
    return fit_table(columns, rows, terminal.width(), right=("patterns", "examples"))


def _print_ok(report: "Report") -> None:
    """Prints the summary of a configuration without mistakes."""
    from turnwise.cli import rendering, terminal
    from turnwise.cli.rendering import wrap
    from turnwise.cli.terminal import one_line

    assert report.tree is not None
    kept = f"policy {report.policy} · store {report.store} · artifacts {report.artifacts or 'none'}"
    lines = [rendering.styled(one_line(kept), "dim")]
    if report.encoder:
        model = report.encoder.partition("@")[0]
        lines.append(rendering.styled(one_line(f"by meaning: {report.phrases:,} phrases · encoder {model}"), "dim"))
    patterns = sum(len(card.patterns) for card in report.tree)
    stages = ", ".join(f"{stage} {milliseconds:.0f} ms" for stage, milliseconds in report.timings)
    line = rendering.styled("ok", "bold green")
    line.append(" · " + one_line(f"{report.shown} · app {report.app} · {len(report.tree)} agents, {patterns} patterns"))
    lines.append(line.append(f" · {stages}", style="dim"))
    terminal.print_lines(wrap(lines, terminal.width()))


def select(
    message: Annotated[str, typer.Argument(help="The message, in quotes.", metavar="MESSAGE")],
    config: ConfigOption = None,
    session: SessionOption = None,
    user: UserOption = DEFAULT_USER,
    context: ContextOption = None,
    role: RoleOption = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Show every verdict with its evidence and options, and who was passed over by which rule."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show which agent would answer a message, and why. Nothing runs and nothing is stored."""
    from turnwise.cli import terminal
    from turnwise.cli.decision_output import ranking_table
    from turnwise.cli.terminal import replace_undecodable

    given = message_context(context, role)
    selection, options = asyncio.run(_select(config, replace_undecodable(message), session, user, given))
    if as_json:
        terminal.print_json(selection.model_dump(mode="json"))
        return
    from turnwise.cli import rendering
    from turnwise.cli.rendering import wrap

    width = terminal.width()
    terminal.print_lines(wrap([rendering.decision_line(selection)], width))
    terminal.print_line()
    terminal.print_lines(ranking_table(selection, width=width))
    terminal.print_line()
    if explain:
        terminal.print_lines(wrap(rendering.explanation_lines(selection, options), width))
        terminal.print_line()
    terminal.print_lines(wrap([rendering.summary_line(selection)], width))


async def _select(
    config: "Path | None", message: str, session: str | None, user: str, context: "MessageContext"
) -> "tuple[Selection, dict[str, JsonValue]]":
    """Returns the selection for the message, and the options of the stages that decided."""
    from turnwise.cli.progress_bars import prepare

    async with open_app(config) as app:
        await prepare(app.runner)
        selection = await app.runner.select(message, user=user, session=session, context=context)
        return selection, app.runner.cascade.options(selection.segment)


policy_app = typer.Typer(help="Show the policy.", rich_markup_mode=None, no_args_is_help=True)
tree_app = typer.Typer(help="Show the agent tree.", rich_markup_mode=None, no_args_is_help=True)

FormatOption = Annotated[str, typer.Option("--format", metavar="FORMAT", help="text or mermaid.")]


@policy_app.command("show", short_help="Draw the stages of a policy in order.")
def show_policy(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A named policy, such as adk. By default the policy of the app.")
    ] = None,
    config: ConfigOption = None,
    form: FormatOption = "text",
) -> None:
    """Draw the stages of a policy in the order in which they are asked. The first one that chooses an agent decides."""
    from turnwise.cli import terminal
    from turnwise.selection.diagram import draw_policy
    from turnwise.selection.named import named_policy

    checked = _format(form)
    policy = asyncio.run(_loaded(config))[0] if name is None else named_policy(name)
    terminal.write(draw_policy(policy, checked) + "\n")


@tree_app.command("show", short_help="Draw the agents below their parents.")
def show_tree(config: ConfigOption = None, form: FormatOption = "text") -> None:
    """Draw the agents below their parents. Runs no agent."""
    from turnwise.cli import terminal
    from turnwise.selection.diagram import draw_tree

    checked = _format(form)
    terminal.write(draw_tree(asyncio.run(_loaded(config))[1], checked) + "\n")


async def _loaded(config: Path | None) -> "tuple[PolicySpec, AgentTree]":
    async with open_app(config) as app:
        return app.runner.cascade.spec, app.runner.tree


def _format(given: str) -> "Format":
    if given == "text":
        return "text"
    if given == "mermaid":
        return "mermaid"
    raise typer.BadParameter("There are two formats: text and mermaid.", param_hint="'--format'")


def schema() -> None:
    """Print the JSON schema of turnwise.yaml. With it, an editor completes keys and marks unknown ones.

    Write it to a file. For editors with the YAML language server, name that file in the first line of turnwise.yaml:
    # yaml-language-server: $schema=turnwise.schema.json
    """
    from turnwise.cli import terminal
    from turnwise.config.schema import file_schema

    terminal.write(json.dumps(file_schema(), indent=2) + "\n")
