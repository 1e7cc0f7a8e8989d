"""The `turnwise` command: registers all commands and turns errors into messages and exit codes."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from turnwise.cli import (
    agents,
    chat,
    configuration,
    data_protection,
    decisions,
    eval,
    experiments,
    flow,
    init,
    keys,
    learn,
    lint,
    mcp,
    memory,
    run,
    serve,
    sessions,
    upkeep,
    worker,
)
from turnwise.cli.exits import FAILED, INTERRUPTED, LEGEND, OK, USAGE, exit_code
from turnwise.facts.errors import TurnwiseError

app = typer.Typer(
    name="turnwise",
    help="The front door for many agents: decides for every message who should answer, says why, and records it.",
    epilog=LEGEND,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS = (
    init,
    configuration,
    lint,
    eval,
    learn,
    chat,
    run,
    serve,
    mcp,
    worker,
    upkeep,
)
for group in _COMMANDS:
    group.register(app)
app.add_typer(flow.app, name="flow")
app.add_typer(sessions.app, name="sessions")
app.add_typer(decisions.app, name="decisions")
app.add_typer(experiments.app, name="experiments")
app.add_typer(memory.app, name="memory")
app.add_typer(data_protection.users_app, name="users")
app.add_typer(keys.app, name="keys")
app.add_typer(agents.app, name="agents")
app.add_typer(data_protection.holds_app, name="holds")
app.add_typer(data_protection.audit_app, name="audit")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"turnwise {version('turnwise')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command line and exits the process with its exit code."""
    # A process may be started without these streams; then its output is discarded.
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        code = _run()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output is gone, which is no error. Python would report it again when it closes the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = OK
    sys.exit(code)


def _run() -> int:
    """Runs the command and returns its exit code; errors become messages on standard error."""
    from turnwise.cli.terminal import print_error, show_error

    debug = bool(os.environ.get("TURNWISE_DEBUG"))
    try:
        result = app(standalone_mode=False)
    except BrokenPipeError:
        raise
    except SystemExit as left:
        # Typer exits the process itself when the reader of our output is gone, and after shell completion.
        if isinstance(left.__context__, OSError):
            raise BrokenPipeError from None
        return left.code if isinstance(left.code, int) else OK
    except (KeyboardInterrupt, typer.Abort):
        result = INTERRUPTED
    except TurnwiseError as error:
        if debug:
            raise
        show_error(error)
        return exit_code(error)
    except Exception as error:
        if debug:
            raise
        return _report_error(error)
    if result == INTERRUPTED:  # typer also returns this code for Ctrl-C, without a message
        print_error("interrupted", "Interrupted.")
    return result if isinstance(result, int) else OK


def _report_error(error: Any) -> int:
    """Reports usage errors, operating system errors and defects. Returns the exit code."""
    from turnwise.cli.terminal import print_error

    if hasattr(error, "format_message"):  # typer's usage errors; their class differs between versions of typer
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "turnwise"
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
            return USAGE
        message = error.format_message().replace("Value error, ", "")  # pydantic's prefix of an invalid value
        print_error("usage", message, f"See: {command} --help")
        return USAGE
    if isinstance(error, RecursionError | MemoryError) or not isinstance(error, OSError):
        print_error(
            "internal", f"{type(error).__name__}: {error}", "This is a defect. TURNWISE_DEBUG=1 shows where it happened."
        )
        return FAILED
    print_error("system", str(error))
    return FAILED
