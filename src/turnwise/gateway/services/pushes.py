"""Notifications: who is to be told what becomes of a message; and what whoever tells them has to know."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from turnwise.access.api_keys import is_valid, key_of
from turnwise.facts.callers import Caller
from turnwise.facts.errors import InvocationMissing, RequestInvalid, SessionError, SessionMissing
from turnwise.facts.ids import Issuer, SystemIssuer, is_storable_id
from turnwise.facts.pushes import PushConfig
from turnwise.facts.sessions import Session, SessionKey
from turnwise.gateway.services.session_scope import SessionScope
from turnwise.ports.key_store import KeyStore
from turnwise.ports.pushes import KeepsPushes, Pushes as Kept, PushPlace
from turnwise.runner import Invocation, Runner

MOST = 10
"""How many configurations one message has."""
CHARACTERS = {"url": 2048, "token": 1024, "scheme": 64, "credentials": 4096}
"""How long the texts of one may be."""


class FollowedInvocation(NamedTuple):
    """An invocation to be told of: the session as it was before, and the handle of all of it from then on."""

    session: Session
    invocation: Invocation


class Pushes:
    """What callers can do with notifications: as whoever may send messages there. It raises Forbidden, and what the store
    raises.

    user: whom the request names; None = the caller. kept: where they are kept; None = nowhere, and nothing here can be called
    then. news: set when there is somebody new to be told.
    """

    def __init__(self, runner: Runner, whose: SessionScope, issuer: Issuer | None = None) -> None:
        self._runner, self._whose, self._issuer = runner, whose, issuer or SystemIssuer()
        self.kept: Kept | None = runner.store.pushes if isinstance(runner.store, KeepsPushes) else None
        self.news = asyncio.Event()

    async def put(
        self, caller: Caller, session: str, message_id: str, config: PushConfig, user: str | None = None, *, after: int | None
    ) -> PushConfig:
        """Keeps it, in place of one with the same id; without an id it gets one. Whether its URL may be reached is for whoever
        asks to know. after: the number above which events are told; None = what is there is known.

        RequestInvalid for what is too long or has too many beside it, InvocationMissing.
        """
        key = self._whose.session(caller, "messages:write", session, user)
        config = config.model_copy(update={"id": config.id or self._issuer.new_id("push"), "caller": caller})
        _check(config)
        await self._check_there(key, message_id)
        try:
            if not await self._in.put(key, message_id, config, after=after, most=MOST):
                raise RequestInvalid(f"{MOST} are notified of this already.", fix="Delete one.", where=("id",))
        except SessionMissing:
            raise _missing() from None
        self.news.set()
        return config

    async def list(self, caller: Caller, session: str, message_id: str, user: str | None = None) -> Sequence[PushConfig]:
        """All for that message, by their ids; `MOST` at most. InvocationMissing."""
        key = self._whose.session(caller, "messages:write", session, user)
        await self._check_there(key, message_id)
        return await self._in.list(key, message_id)

    async def remove(self, caller: Caller, session: str, message_id: str, id: str, user: str | None = None) -> None:
        """Tells him no more. Idempotent. InvocationMissing."""
        key = self._whose.session(caller, "messages:write", session, user)
        await self._check_there(key, message_id)
        if is_storable_id(id):
            await self._in.remove(key, message_id, id)

    async def follow(self, place: PushPlace) -> FollowedInvocation | None:
        """What is to be told of, once it is begun with; None when it never will be. SessionError, StoreError."""
        key, message_id = place.key, place.message_id
        invocation_id = await self._begun(key, message_id)
        # Before the handle: whatever comes after it was read is news to whoever looks again.
        session = await self._runner.store.open(key)
        if invocation_id is None or session is None:
            return None
        try:
            whole = await self._runner.attach(user=key.user, session=key.id, invocation_id=invocation_id)
        except InvocationMissing:
            return None
        return FollowedInvocation(session, whole)

    async def may_hear(self, caller: Caller) -> bool:
        """Whether who set it up would still be let in: not with a key that expired or was revoked since."""
        key_id, store = key_of(caller), self._runner.store
        if key_id is None or not isinstance(store, KeyStore):
            return True
        key = await store.keys.find(self._runner.app, key_id)
        return key is not None and is_valid(key, self._issuer.now())

    @property
    def _in(self) -> Kept:
        assert self.kept is not None
        return self.kept

    async def _begun(self, key: SessionKey, message_id: str) -> str | None:
        """The invocation of that message, when it has one; None when it was refused, or deleted."""
        receipt = await self._runner.store.inbox.receipt(key, message_id)
        if receipt is None or receipt.state != "queued":
            return receipt.invocation_id if receipt else None
        try:
            waiting = await self._runner.attach(user=key.user, session=key.id, message_id=message_id)
            async for _ in waiting.events():
                break
        except SessionError:
            pass  # it was refused, or this process closes: the receipt says
        receipt = await self._runner.store.inbox.receipt(key, message_id)
        if receipt is not None and receipt.state == "queued":
            raise SessionError("The message is still in the line.", fix="Look again.")
        return receipt.invocation_id if receipt else None

    async def _check_there(self, key: SessionKey, message_id: str) -> None:
        if not is_storable_id(message_id) or await self._runner.store.inbox.receipt(key, message_id) is None:
            raise _missing()


def _check(config: PushConfig) -> None:
    if not is_storable_id(config.id):
        raise RequestInvalid("Its id cannot be stored.", fix="Use 1 to 200 characters, no NUL.", where=("id",))
    for name, most in CHARACTERS.items():
        text: str = getattr(config, name)
        if len(text) > most:
            raise RequestInvalid(f"It is longer than {most:,} characters.", fix="Shorten it.", where=(name,))
        if not (text.isascii() and (text.isprintable() or not text)) or text != text.strip():
            fix = "Use printable ASCII characters, none of them blank at either end."
            raise RequestInvalid("It holds characters that cannot be sent.", fix=fix, where=(name,))


def _missing() -> InvocationMissing:
    return InvocationMissing("There is no such message.", fix="Check the id.")
