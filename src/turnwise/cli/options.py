"""The options that several commands share."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.completing import agent_roles

if TYPE_CHECKING:
    from turnwise.facts.messages import MessageContext

DEFAULT_USER = "local"

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="The configuration; by default turnwise.yaml here or above."),
]
UserOption = Annotated[str, typer.Option("--user", "-u", metavar="USER", help="Whose session it is.")]
SessionOption = Annotated[str | None, typer.Option("--session", "-s", metavar="ID", help="The session.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, nothing else.")]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context", metavar="JSON", help='What is known beside the message, such as {"channel": "web", "roles": ["staff"]}.'
    ),
]
RoleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        metavar="ROLE",
        help="A role of the caller, for agents that only some may reach. May be repeated.",
        autocompletion=agent_roles,
    ),
]


def message_context(given: str | None, roles: Sequence[str] | None = None) -> "MessageContext":
    """The context as a value, with these roles added to its own; typer.BadParameter says what is wrong with it."""
    from pydantic import ValidationError

    from turnwise.config.validation import mistakes
    from turnwise.facts.messages import MessageContext

    try:
        context = MessageContext.model_validate_json("{}" if given is None else given, strict=True, extra="forbid")
        return context.model_copy(update={"roles": tuple(dict.fromkeys((*context.roles, *(roles or ()))))})
    except ValidationError as error:
        first = mistakes(error, MessageContext)[0]
        raise typer.BadParameter(f"{first.problem} {first.fix}".rstrip(), param_hint="'--context'") from None
