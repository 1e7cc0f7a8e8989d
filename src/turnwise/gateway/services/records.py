"""Legal holds, the audit log and the export of a user, with the caller's rights."""

from collections.abc import AsyncIterator, Sequence

from turnwise.facts.errors import NothingHere
from turnwise.facts.ids import Issuer
from turnwise.gateway.services.session_admission import SessionScope
from turnwise.ports.decisions import Page
from turnwise.ports.records import Act, AuditEntry, Hold, RecordStore, record_store_of
from turnwise.runner import Runner
from turnwise.runner.user_export import ExportView, UserExport


class Records:
    """Manages legal holds, reads the audit log and exports users. All methods raise Forbidden and the store's errors."""

    def __init__(self, runner: Runner, scope: SessionScope, issuer: Issuer) -> None:
        self._runner, self._scope, self._issuer = runner, scope, issuer

    async def add_hold(self, reason: str) -> Hold:
        """Adds a legal hold on the named user's data."""
        user, author = self._scope.user("holds:write"), self._scope.caller.id
        hold = Hold(id=self._issuer.new_id("hold"), user=user, author=author, at=self._issuer.now(), reason=reason)
        await record_store_of(self._runner.store).holds.add(self._runner.app, hold)
        return hold

    async def holds(self) -> Sequence[Hold]:
        """Returns all holds, or those of the named user, oldest first."""
        user = self._users()
        return await record_store_of(self._runner.store).holds.list(self._runner.app, user=user)

    async def remove_hold(self, id: str) -> None:
        """Removes a hold. Raises NothingHere when it does not exist."""
        self._scope.require("holds:write")
        if not await record_store_of(self._runner.store).holds.remove(self._runner.app, id, actor=self._scope.caller.id):
            raise NothingHere(f"There is no legal hold {id[:64]!r}.", fix="List the holds for their ids.")

    async def audit(self, *, action: str | None, after: str | None, limit: int) -> Page[AuditEntry]:
        """Returns a page of the audit log, of the named user or of all, newest first. Raises CursorInvalid."""
        user = self._users()
        audit = record_store_of(self._runner.store).audit
        return await audit.list(self._runner.app, user=user, action=action, after=after, limit=limit)

    async def export(self, view: ExportView) -> AsyncIterator[bytes]:
        """Returns the pieces of the named user's archive, and records the export in the audit log.

        Needs `sessions:read`, `artifacts:read`, `decisions:read` and `memories:read` for the user.

        Args:
            view: The caller's view.
        """
        user = self._scope.user("sessions:read")
        self._scope.user("artifacts:read")
        self._scope.user("decisions:read")
        self._scope.user("memories:read")
        runner = self._runner
        if isinstance(runner.store, RecordStore):
            await runner.store.audit.record(runner.app, Act(self._scope.caller.id, "user.exported", user))
        return UserExport(runner.store, runner.artifacts, runner.app, user, view).chunks(self._issuer.now())

    def _users(self) -> str | None:
        """Returns the named user; None for all, when the request names none."""
        return self._scope.users("audit:read", everybody=self._scope.named is None)
