"""Names of tools by which the runtime itself is told something: no tool of a caller has them."""

from collections.abc import Mapping

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
