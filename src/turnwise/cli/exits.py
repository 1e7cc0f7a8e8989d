"""Exit codes of the command line, and their errors."""

from turnwise.facts.errors import ConfigError, CursorInvalid, DefinitionError, MemoryInvalid, StoreError, TurnwiseError

OK, FAILED, USAGE, STORE, INTERRUPTED = 0, 1, 2, 3, 130

GOOD_ENDS = frozenset({"completed", "clarify"})
"""End reasons of an invocation that count as success."""

LEGEND = """Exit codes: 0 all went well; 1 what was run had failures; 2 usage or configuration;
3 the store cannot be used; 130 interrupted. Set TURNWISE_DEBUG=1 for tracebacks."""


class UsageProblem(TurnwiseError):
    """The command cannot do what its arguments request."""

    code = "usage"


def exit_code(error: TurnwiseError) -> int:
    """Returns the exit code for an error."""
    if isinstance(error, ConfigError | CursorInvalid | DefinitionError | MemoryInvalid | UsageProblem):
        return USAGE
    return STORE if isinstance(error, StoreError) else FAILED
