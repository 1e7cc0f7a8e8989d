"""Push notification configurations of messages, and what the sender of notifications needs to know."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from turnwise.access.api_keys import is_valid, key_of
from turnwise.facts.callers import Caller
from turnwise.facts.errors import InvocationMissing, RequestInvalid, SessionError, SessionMissing
from turnwise.facts.ids import Issuer, is_storable_id
from turnwise.facts.sessions import Session, SessionKey
from turnwise.gateway.services.session_admission import SessionScope
from turnwise.ports.key_store import KeyStore
from turnwise.ports.pushes import KeepsPushes, PushConfig, Pushes as PushStore, PushPlace
from turnwise.runner import Invocation, Runner

MAX_CONFIGS = 10
"""The maximum number of configurations for one message."""
MAX_CHARACTERS = {"url": 2048, "token": 1024, "scheme": 64, "credentials": 4096}
"""The maximum length of each text of a configuration."""


class FollowedInvocation(NamedTuple):
    """An invocation to notify about: the session as it was before, and a handle with everything after that."""

    session: Session
    invocation: Invocation


class PushFeed:
    """The data that the sender of notifications reads. It acts for no caller."""

    def __init__(self, runner: Runner, issuer: Issuer) -> None:
        self._runner, self._issuer = runner, issuer
        self.kept: PushStore | None = runner.store.pushes if isinstance(runner.store, KeepsPushes) else None
        self.news = asyncio.Event()
        """Set when a configuration was stored."""

    @property
    def store(self) -> PushStore:
        assert self.kept is not None
        return self.kept

    async def follow(self, place: PushPlace) -> FollowedInvocation | None:
        """Returns the invocation to notify about, as soon as the message is started; None if it never will be.

        Raises:
            SessionError: The message is still queued.
            StoreError: The store failed.
        """
        key, message_id = place.key, place.message_id
        invocation_id = await self._invocation_id_of(key, message_id)
        # Read before the handle, so that no event between the two reads is missed.
        session = await self._runner.store.open(key)
        if invocation_id is None or session is None:
            return None
        try:
            whole = await self._runner.attach(user=key.user, session=key.id, invocation_id=invocation_id)
        except InvocationMissing:
            return None
        return FollowedInvocation(session, whole)

    async def is_still_authorized(self, caller: Caller) -> bool:
        """Returns whether the API key of the configuration's creator is still valid: neither expired nor revoked."""
        key_id, store = key_of(caller), self._runner.store
        if key_id is None or not isinstance(store, KeyStore):
            return True
        key = await store.keys.find(self._runner.app, key_id)
        return key is not None and is_valid(key, self._issuer.now())

    async def _invocation_id_of(self, key: SessionKey, message_id: str) -> str | None:
        """Returns the id of the message's invocation, once it is started; None if the message was refused or deleted."""
        receipt = await self._runner.store.inbox.receipt(key, message_id)
        if receipt is None or receipt.state != "queued":
            return receipt.invocation_id if receipt else None
        try:
            waiting = await self._runner.attach(user=key.user, session=key.id, message_id=message_id)
            async for _ in waiting.events():
                break
        except SessionError:
            pass  # the message was refused, or this process is closing; the receipt tells which
        receipt = await self._runner.store.inbox.receipt(key, message_id)
        if receipt is not None and receipt.state == "queued":
            raise SessionError("The message is still queued.", fix="Look again.")
        return receipt.invocation_id if receipt else None


class Pushes:
    """Stores, lists and deletes push notification configurations. The caller needs the permission to send messages
    there.

    All methods raise Forbidden and the store's
    errors.
    """

    def __init__(self, runner: Runner, scope: SessionScope, feed: PushFeed, issuer: Issuer) -> None:
        self._runner, self._scope, self._feed, self._issuer = runner, scope, feed, issuer

    async def put(self, session: str, message_id: str, config: PushConfig, *, after: int | None) -> PushConfig:
        """Stores a configuration and replaces one with the same id. A configuration without an id gets one.

        The caller of this method has to check that the URL may be called.

        Args:
            session: The session's id.
            message_id: The message's id.
            config: The configuration.
            after: Events above this sequence number are sent; None to send only events from now on.

        Raises:
            RequestInvalid: A field is invalid, or the message has `MAX_CONFIGS` configurations already.
            InvocationMissing: There is no such message.
        """
        key = self._scope.session("messages:write", session)
        config = config.replace(id=config.id or self._issuer.new_id("push"), caller=self._scope.caller)
        _check(config)
        await self._require_message(key, message_id)
        try:
            if not await self._feed.store.put(key, message_id, config, after=after, most=MAX_CONFIGS):
                raise RequestInvalid(
                    f"{MAX_CONFIGS} configurations exist for this message already.", fix="Delete one.", where=("id",)
                )
        except SessionMissing:
            raise _missing() from None
        self._feed.news.set()
        return config

    async def list(self, session: str, message_id: str) -> Sequence[PushConfig]:
        """Returns the configurations of a message, sorted by id; at most `MAX_CONFIGS`. Raises InvocationMissing."""
        key = self._scope.session("messages:write", session)
        await self._require_message(key, message_id)
        return await self._feed.store.list(key, message_id)

    async def remove(self, session: str, message_id: str, id: str) -> None:
        """Deletes a configuration. Idempotent. Raises InvocationMissing."""
        key = self._scope.session("messages:write", session)
        await self._require_message(key, message_id)
        if is_storable_id(id):
            await self._feed.store.remove(key, message_id, id)

    async def _require_message(self, key: SessionKey, message_id: str) -> None:
        if not is_storable_id(message_id) or await self._runner.store.inbox.receipt(key, message_id) is None:
            raise _missing()


def _check(config: PushConfig) -> None:
    """Raises RequestInvalid for an id or text of the config that cannot be stored or sent as a header."""
    if not is_storable_id(config.id):
        raise RequestInvalid("The id cannot be stored.", fix="Use 1 to 200 characters, no NUL.", where=("id",))
    for name, most in MAX_CHARACTERS.items():
        text: str = getattr(config, name)
        if len(text) > most:
            raise RequestInvalid(f"The text is longer than {most:,} characters.", fix="Shorten it.", where=(name,))
        if not (text.isascii() and (text.isprintable() or not text)) or text != text.strip():
            fix = "Use printable ASCII characters, without spaces at either end."
            raise RequestInvalid("The text has characters that cannot be sent.", fix=fix, where=(name,))


def _missing() -> InvocationMissing:
    return InvocationMissing("There is no such message.", fix="Check the id.")
