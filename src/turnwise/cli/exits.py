"""Exit codes, and which error gives which."""

from turnwise.facts.errors import ConfigError, StoreError, TurnwiseError

OK, FAILED, USAGE, STORE, INTERRUPTED = 0, 1, 2, 3, 130

GOOD_ENDS = frozenset({"completed", "clarify"})
"""The ends of an invocation that are no failure."""

LEGEND = """Exit codes: 0 all went well; 1 what was run had failures; 2 usage or configuration;
3 the store cannot be used; 130 interrupted. Set TURNWISE_DEBUG=1 for tracebacks."""


class UsageProblem(TurnwiseError):
    """What was asked for cannot be done as it was said."""

    code = "usage"


def exit_code(error: TurnwiseError) -> int:
    """The exit code that tells a script what kind of error it was."""
    if isinstance(error, ConfigError | UsageProblem):
        return USAGE
    return STORE if isinstance(error, StoreError) else FAILED
