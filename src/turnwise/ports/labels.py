"""The store of labels: what people and programs think of decisions, with the log of changes and the reviewers' claims."""

from collections.abc import Sequence
from typing import Protocol

from turnwise.facts.labels import Claim, Label, LabelChange, LabelledDecision
from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import Page


class Labels(Protocol):
    """Labels of decisions. A decision has at most one label for each source and author. Raises StoreError.

    Labels outlive the text and the record of their decision. Deleting the session or the user deletes them.
    """

    async def put(self, key: SessionKey, sequence: int, label: Label, *, actor: str) -> None:
        """Stores a label, replacing that of the same source and author, and records the change.

        Storing the same label again changes nothing. Raises InvocationMissing when there is no decision.
        """
        ...

    async def remove(self, key: SessionKey, sequence: int, source: str, author: str, *, actor: str) -> bool:
        """Removes a label and records the change. Returns whether it existed."""
        ...

    async def of(self, key: SessionKey, sequence: int) -> Sequence[LabelledDecision]:
        """Returns the labels of a decision: the operators' newest first, then the others, the heaviest first."""
        ...

    async def search(
        self, app: str, *, user: str | None = None, source: str | None = None, after: str | None = None, limit: int = 50
    ) -> Page[LabelledDecision]:
        """Returns labels, the least recently changed first. Raises CursorInvalid.

        Args:
            after: The cursor of a page.
        """
        ...

    async def changes(self, key: SessionKey, sequence: int) -> Sequence[LabelChange]:
        """Returns all changes of a decision's labels, oldest first.

        The twentieth and later changes by one author are one change, unless the author is an operator.
        """
        ...

    async def claim(self, key: SessionKey, sequence: int, reviewer: str, *, seconds: float) -> Claim:
        """Claims the review of a decision for a time, unless another reviewer has it. Returns the claim that holds.

        A reviewer who claims again extends the claim. Raises InvocationMissing when there is no decision.
        """
        ...

    async def unclaim(self, key: SessionKey, sequence: int, reviewer: str) -> None:
        """Releases the reviewer's claim. Idempotent."""
        ...
