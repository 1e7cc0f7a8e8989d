"""Names of tools: what every provider takes, made from names that people gave (behaviour A16)."""

import hashlib
import re
import unicodedata
from collections.abc import Mapping

NAME_CHARACTERS = 64

# The strictest provider wants a letter or an underscore first.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_DIGEST_CHARACTERS = 10
_DERIVED = re.compile(rf"_[0-9a-f]{{{_DIGEST_CHARACTERS}}}\Z")


def is_tool_name(name: str) -> bool:
    """Whether every provider takes it as a tool's name."""
    return _PLAIN.fullmatch(name) is not None


def tool_name(name: str, prefix: str = "") -> str:
    """`prefix` and `name` as one tool name: 1 to 64 of `a-zA-Z0-9_-`, the first no digit and no hyphen.

    It depends on the two alone. What is such a name already stays as it is; anything else, and what could be taken for a
    name made here, is spelled plainly and ends in a digest of the original, so that two never share one.
    """
    wanted = prefix + name
    if is_tool_name(wanted) and not _DERIVED.search(wanted):
        return wanted
    digest = hashlib.sha256(wanted.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", _spelled(wanted)).strip("_-")
    if not plain[:1].isalpha():
        plain = f"_{plain}"
    return f"{plain[: NAME_CHARACTERS - 1 - _DIGEST_CHARACTERS].rstrip('_-')}_{digest}"


def _spelled(text: str) -> str:
    """Without accents, and with ß as ss."""
    return "".join(
        c if c.isascii() else c.casefold() for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)
    )


TRANSFER, OUTPUT, CONFIRM = "transfer_to_agent", "final_answer", "confirm"
SUCCEEDED, FAILED, END_TURN = "task_succeeded", "task_failed", "end_turn"

OF_AGENTS: Mapping[str, str] = {TRANSFER: "hand-overs", OUTPUT: "answers of a type", CONFIRM: "questions to a person"}
"""What they are for; no tool of an agent has these either."""
_OF_TASKS: Mapping[str, str] = {FAILED: "tasks that fail", END_TURN: "turns in a flow"}


def reserved_for(name: str) -> str | None:
    """What the name is kept for; None when a caller's tool may have it."""
    if name == SUCCEEDED or name.startswith(f"{SUCCEEDED}_"):  # one for each task, if there are several
        return "results of tasks"
    return OF_AGENTS.get(name) or _OF_TASKS.get(name)
