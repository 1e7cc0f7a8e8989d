"""Tool names: derives names that every provider accepts, and lists the reserved ones (behaviour A16)."""

import hashlib
import re
import unicodedata
from collections.abc import Mapping

from turnwise.facts.waits import APPROVAL_TOOL

NAME_CHARACTERS = 64
# The strictest provider wants a letter or an underscore first.
_VALID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_DIGEST_CHARACTERS = 10
_HAS_DIGEST = re.compile(rf"_[0-9a-f]{{{_DIGEST_CHARACTERS}}}\Z")
TRANSFER, OUTPUT, CONFIRM = "transfer_to_agent", "final_answer", APPROVAL_TOOL
SUCCEEDED, FAILED, END_TURN = "task_succeeded", "task_failed", "end_turn"
OF_AGENTS: Mapping[str, str] = {TRANSFER: "hand-overs", OUTPUT: "answers of a type", CONFIRM: "questions to a person"}
"""Reserved names and their purpose; an agent's own tools may not use them either."""
_OF_TASKS: Mapping[str, str] = {FAILED: "tasks that fail", END_TURN: "turns in a flow"}


def is_tool_name(name: str) -> bool:
    """Checks whether every provider accepts the name."""
    return _VALID.fullmatch(name) is not None


def tool_name(name: str, prefix: str = "") -> str:
    """Returns a tool name made of prefix and name: 1 to 64 of `a-zA-Z0-9_-`, starting with a letter or an underscore.

    The result depends only on the two arguments. A valid name stays unchanged. Any other name is transliterated and
    gets a digest of the original, so two originals never share a result. This includes valid names that look derived.
    """
    original = prefix + name
    if is_tool_name(original) and not _HAS_DIGEST.search(original):
        return original
    digest = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", _transliterated(original)).strip("_-")
    if not plain[:1].isalpha():
        plain = f"_{plain}"
    return f"{plain[: NAME_CHARACTERS - 1 - _DIGEST_CHARACTERS].rstrip('_-')}_{digest}"


def _transliterated(text: str) -> str:
    """Removes accents and writes ß as ss."""
    return "".join(
        c if c.isascii() else c.casefold() for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)
    )


def reserved_for(name: str) -> str | None:
    """Returns the purpose for which the name is reserved; None if a caller's tool may use it."""
    if name == SUCCEEDED or name.startswith(f"{SUCCEEDED}_"):  # several tasks have one tool each
        return "results of tasks"
    return OF_AGENTS.get(name) or _OF_TASKS.get(name)
