"""`turnwise schema`: the JSON schema of turnwise.yaml, for editors."""

import json

import typer


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command(short_help="Print the JSON schema of turnwise.yaml, for editors.")(schema)


def schema() -> None:
    """Print the JSON schema of turnwise.yaml. With it, an editor completes keys and marks unknown ones.

    Write it to a file. For editors with the YAML language server, name that file in the first line of turnwise.yaml:
    # yaml-language-server: $schema=turnwise.schema.json
    """
    from turnwise.cli import terminal
    from turnwise.config.schema import file_schema

    terminal.write(json.dumps(file_schema(), indent=2) + "\n")
