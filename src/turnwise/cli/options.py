"""The options that several commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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


def message_context(given: str | None) -> "MessageContext":
    """The context as a value; typer.BadParameter says what is wrong with it."""
    from pydantic import ValidationError

    from turnwise.config.validation import mistakes
    from turnwise.facts.messages import MessageContext

    if given is None:
        return MessageContext()
    try:
        return MessageContext.model_validate_json(given, strict=True, extra="forbid")
    except ValidationError as error:
        first = mistakes(error, MessageContext)[0]
        raise typer.BadParameter(f"{first.problem} {first.fix}".rstrip(), param_hint="'--context'") from None
