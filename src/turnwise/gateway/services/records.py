"""Legal holds and the audit log, with the caller's rights."""

from collections.abc import Sequence
from datetime import UTC, datetime

from turnwise.access.records import record_store_of
from turnwise.facts.callers import Caller
from turnwise.facts.errors import NothingHere
from turnwise.facts.ids import Issuer, SystemIssuer
from turnwise.gateway.services.session_scope import SessionScope
from turnwise.ports.audit import AuditEntry
from turnwise.ports.decisions import Page
from turnwise.ports.holds import Hold
from turnwise.runner import Runner


class Records:
    """Adds, lists and removes legal holds, and reads the audit log. All methods raise Forbidden and the store's errors."""

    def __init__(self, runner: Runner, scope: SessionScope, issuer: Issuer | None = None) -> None:
        self._runner, self._scope, self._issuer = runner, scope, issuer or SystemIssuer()

    async def add_hold(self, caller: Caller, user: str, reason: str) -> Hold:
        """Adds a legal hold on a user's data."""
        user = self._scope.user(caller, "holds:write", user)
        hold = Hold(id=self._issuer.new_id("hold"), user=user, author=caller.id, at=datetime.now(UTC), reason=reason)
        await record_store_of(self._runner.store).holds.add(self._runner.app, hold)
        return hold

    async def holds(self, caller: Caller, user: str | None) -> Sequence[Hold]:
        """Returns all holds, or those of a user, oldest first."""
        self._scope.users(caller, "audit:read", user, everybody=user is None)
        return await record_store_of(self._runner.store).holds.list(self._runner.app, user=user)

    async def remove_hold(self, caller: Caller, id: str) -> None:
        """Removes a hold. Raises NothingHere when it does not exist."""
        self._scope.require(caller, "holds:write")
        if not await record_store_of(self._runner.store).holds.remove(self._runner.app, id, actor=caller.id):
            raise NothingHere(f"There is no legal hold {id[:64]!r}.", fix="List the holds for their ids.")

    async def audit(
        self, caller: Caller, *, user: str | None, action: str | None, after: str | None, limit: int
    ) -> Page[AuditEntry]:
        """Returns a page of the audit log, newest first. Raises CursorInvalid."""
        self._scope.users(caller, "audit:read", user, everybody=user is None)
        audit = record_store_of(self._runner.store).audit
        return await audit.list(self._runner.app, user=user, action=action, after=after, limit=limit)
