"""`turnwise schema`: the JSON schema of turnwise.yaml, for editors."""

import json

import typer


def register(app: typer.Typer) -> None:
    """Adds the command of this file."""
    app.command(short_help="Print the JSON schema of turnwise.yaml, for editors.")(schema)


def schema() -> None:
    """Print the JSON schema of turnwise.yaml. With it, an editor completes keys, and marks those that are misspelled.

    Write it to a file, and name that in the first line of turnwise.yaml, for editors with the YAML language server:
    # yaml-language-server: $schema=turnwise.schema.json
    """
    from turnwise.cli import terminal
    from turnwise.config.schema import file_schema

    terminal.write(json.dumps(file_schema(), indent=2) + "\n")
