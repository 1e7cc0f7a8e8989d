"""Stores the policy and the agent tree that this process decides with, so that decisions can be explained later."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable

from turnwise.facts.ids import Issuer
from turnwise.facts.selections import Selection
from turnwise.ports.decisions import Version, VersionKind
from turnwise.selection.cascade import Cascade

_log = logging.getLogger(__name__)


class VersionRecorder:
    """Stores each version once, in the background. A failure is logged, and the next decision tries again."""

    def __init__(self, put: Callable[[str, Version], Awaitable[None]], issuer: Issuer) -> None:
        self._put_version, self._issuer = put, issuer
        self._known: set[tuple[str, VersionKind, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def note(self, app: str, selection: Selection, cascade: Cascade) -> None:
        """Starts to store the versions of a decision that the cascade just made. Returns at once."""
        names: tuple[tuple[VersionKind, str], ...] = (("policy", selection.fingerprint), ("tree", selection.tree_version))
        for kind, version in names:
            if version and (app, kind, version) not in self._known:
                self._known.add((app, kind, version))
                task = asyncio.create_task(self._put(app, kind, version, cascade))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Waits until all versions are stored, or failed."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _put(self, app: str, kind: VersionKind, version: str, cascade: Cascade) -> None:
        """Stores a version with its body. A failure is logged, and the version is tried again with the next decision."""
        try:
            # A tree may have thousands of cards.
            body = await asyncio.to_thread(_body, kind, cascade)
            name = cascade.spec.name if kind == "policy" else ""
            await self._put_version(app, Version(kind, version, name, body, self._issuer.now()))
        except Exception as error:
            self._known.discard((app, kind, version))
            _log.debug("The %s %s of app %s could not be stored: %s", kind, version, app, error)


def _body(kind: VersionKind, cascade: Cascade) -> str:
    if kind == "policy":
        return json.dumps(cascade.description(), ensure_ascii=False, separators=(",", ":"))
    # A tree's version is never deleted, so what users wrote is not in it.
    return f"[{','.join(card.model_dump_json(exclude_defaults=True, exclude={'learned'}) for card in cascade.tree)}]"
