"""What somebody types, or what a pipe holds, line by line."""

import sys


def typed(prompt: str, *, interactive: bool) -> str | None:
    """The next line; None at the end. The prompt is shown to who sits there (`interactive`). KeyboardInterrupt is Ctrl-C."""
    from turnwise.cli import terminal
    from turnwise.cli.clean import whole

    if not interactive:
        line = sys.stdin.readline() if sys.stdin else ""
        return whole(line.rstrip("\n")) if line else None
    try:
        import readline  # noqa: F401  editing and recall of lines, by being imported

        prompt = terminal.prompt(prompt)
    except ImportError:  # Python may be built without it
        pass
    try:
        return whole(input(prompt))
    except (EOFError, KeyboardInterrupt) as left:
        print()
        if isinstance(left, KeyboardInterrupt):
            raise
        return None
