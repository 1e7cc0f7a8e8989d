"""Who is let in, and who is not."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from access_play import SECRET, Clock, token
from hypothesis import given, strategies as st

from turnwise.access.api_keys import caller_of, new_key
from turnwise.access.authenticator import LOCAL, Authenticator, key_store_of
from turnwise.facts.callers import ApiKey, Caller
from turnwise.facts.errors import ConfigError, NotAuthenticated, StoreError, TooMany
from turnwise.facts.gateway import AuthConfig, CallerLimits, JwtConfig
from turnwise.stores.sql import SqlSessionStore

JWT = JwtConfig(algorithms=("HS256",), key=SECRET)
BOTH = AuthConfig(keys=True, jwt=JWT)
HOME, ELSEWHERE = "203.0.113.7", "203.0.113.8"
NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Issuer:
    """Gives the time that it is set to."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> datetime:
        return self.time

    def new_id(self, kind: str) -> str:
        return f"{kind}-1"


class Keys:
    """The keys of a store, and which were looked for."""

    def __init__(self, store: SqlSessionStore) -> None:
        self._keys = store.keys
        self.looked_for: list[str] = []

    async def add(self, app: str, key: ApiKey) -> None:
        await self._keys.add(app, key)

    async def find(self, app: str, id: str) -> ApiKey | None:
        self.looked_for.append(id)
        return await self._keys.find(app, id)

    async def list(self, app: str) -> Sequence[ApiKey]:
        return await self._keys.list(app)

    async def expire(self, app: str, id: str, at: datetime) -> bool:
        return await self._keys.expire(app, id, at)

    async def forget(self, app: str, id: str) -> None:
        await self._keys.forget(app, id)


class Scene(NamedTuple):
    gatekeeper: Authenticator
    keys: Keys
    clock: Clock
    issuer: Issuer

    async def enters(self, credential: str, address: str = HOME) -> Caller:
        return await self.gatekeeper.caller(f"Bearer {credential}", None, address)

    async def refused(self, credential: str, address: str = HOME) -> NotAuthenticated:
        with pytest.raises(NotAuthenticated) as refusal:
            await self.enters(credential, address)
        return refusal.value


@asynccontextmanager
async def scene(auth: AuthConfig = BOTH, failures: int = 30) -> AsyncIterator[Scene]:
    store, clock, issuer = SqlSessionStore("sqlite://"), Clock(), Issuer()
    keys = Keys(store)
    limits = CallerLimits(failures=failures)
    try:
        yield Scene(Authenticator("shop", auth, limits, keys, issuer=issuer, clock=clock), keys, clock, issuer)
    finally:
        await store.close()


async def test_without_auth_everybody_is_at_home() -> None:
    gatekeeper = Authenticator("shop", None, CallerLimits())
    for given_ in (None, "Bearer x", "Basic x"):
        assert await gatekeeper.caller(given_, "x", HOME) == LOCAL
    assert (LOCAL.role, LOCAL.user, LOCAL.acts_for_users, LOCAL.agent_roles) == ("admin", "local", True, None)


async def test_a_key_comes_in_either_header() -> None:
    async with scene() as at:
        text, key = new_key("laptop", NOW, user="ann", agent_roles=["staff"])
        await at.keys.add("shop", key)
        for authorization in (f"Bearer {text}", f"bearer  {text} ", f"BEARER {text}"):
            assert await at.gatekeeper.caller(authorization, None, HOME) == caller_of(key)
        assert await at.gatekeeper.caller(None, text, HOME) == caller_of(key)
        assert await at.gatekeeper.caller("Basic eDp5", text, HOME) == caller_of(key), "a proxy's own"
        assert await at.gatekeeper.caller(f"Bearer {text}", "", HOME) == caller_of(key)


async def test_a_token_is_borne() -> None:
    async with scene() as at:
        assert await at.enters(token()) == Caller(id="token:ann", user="ann")
        with pytest.raises(NotAuthenticated):
            await at.gatekeeper.caller(None, token(), HOME)


async def test_only_what_is_configured_counts() -> None:
    text, key = new_key("laptop", NOW, user="ann")
    async with scene(AuthConfig(keys=True)) as at:
        await at.keys.add("shop", key)
        await at.enters(text)
        await at.refused(token())
    async with scene(AuthConfig(keys=False, jwt=JWT)) as at:
        await at.keys.add("shop", key)
        await at.enters(token())
        await at.refused(text)
        assert at.keys.looked_for == []


async def test_whatever_is_wrong_is_refused_in_the_same_words() -> None:
    async with scene() as at:
        text, key = new_key("laptop", NOW, user="ann")
        old_text, old = new_key("old", NOW - timedelta(days=2), user="ann", lifetime=timedelta(days=1))
        gone_text, gone = new_key("gone", NOW - timedelta(days=2), user="ann")
        theirs_text, theirs = new_key("theirs", NOW, user="ann")
        for kept in (key, old, gone):
            await at.keys.add("shop", kept)
        await at.keys.expire("shop", gone.id, NOW)
        await at.keys.add("bank", theirs)
        mixed = f"{text[:16]}{old_text[16:]}"
        wrong = [
            mixed,
            old_text,
            gone_text,
            theirs_text,
            "x",
            text[:-1],
            "x" * 100_000,
            "é\ud800",
            token(exp=1),
            token("y" * 64),
        ]
        words = {str(await at.refused(each)) for each in wrong}
        nothing = [(None, None), ("", ""), ("Bearer", None), ("Bearer ", None), ("Basic eDp5", None), (text, None), (None, "x")]
        for authorization, api_key in nothing:
            with pytest.raises(NotAuthenticated) as refusal:
                await at.gatekeeper.caller(authorization, api_key, HOME)
            words.add(str(refusal.value))
        assert len(words) == 1
        await at.enters(text)


@given(st.none() | st.text() | st.text().map("Bearer {}".format), st.none() | st.text(), st.text())
def test_any_text_at_all_is_refused(authorization: str | None, api_key: str | None, address: str) -> None:
    gatekeeper = Authenticator("shop", AuthConfig(keys=False, jwt=JWT), CallerLimits())
    asked = gatekeeper.caller(authorization, api_key, address)
    with pytest.raises(NotAuthenticated):
        asked.send(None)


async def test_a_key_that_is_revoked_stops_within_a_second() -> None:
    async with scene() as at:
        text, key = new_key("laptop", NOW, user="ann")
        await at.keys.add("shop", key)
        for _ in range(3):
            await at.enters(text)
        assert at.keys.looked_for == [key.id], "a key in use is not read for each request"
        await at.keys.expire("shop", key.id, NOW)
        at.clock.now += 0.99
        await at.enters(text)
        at.clock.now += 0.01
        await at.refused(text)


async def test_a_key_that_expires_stops_at_once() -> None:
    async with scene() as at:
        text, key = new_key("laptop", NOW, user="ann", lifetime=timedelta(days=1))
        await at.keys.add("shop", key)
        await at.enters(text)
        at.issuer.time = NOW + timedelta(days=1)
        await at.refused(text)


async def test_an_address_with_too_many_failures_waits() -> None:
    async with scene(failures=3) as at:
        text, key = new_key("laptop", NOW, user="ann")
        await at.keys.add("shop", key)
        for _ in range(3):
            await at.refused("tw_000000000000_" + "A" * 43)
        at.clock.now += 15
        looked_for = len(at.keys.looked_for)
        for credential in ("tw_000000000000_" + "A" * 43, token("y" * 64), text):
            with pytest.raises(TooMany) as refusal:
                await at.enters(credential)
            assert refusal.value.retry_after == 45
        assert len(at.keys.looked_for) == looked_for, "nobody looks any more"
        assert await at.enters(text, ELSEWHERE) == caller_of(key)
        at.clock.now += 45
        assert await at.enters(text) == caller_of(key)
        await at.refused("x")


async def test_one_who_came_in_before_is_not_locked_out_by_his_neighbours() -> None:
    async with scene(failures=1) as at:
        text, key = new_key("laptop", NOW, user="ann")
        await at.keys.add("shop", key)
        await at.enters(text)
        await at.refused("x")
        with pytest.raises(TooMany):
            await at.enters("x")
        assert await at.enters(text) == caller_of(key)
        await at.keys.expire("shop", key.id, NOW)
        at.clock.now += 1
        for _ in range(2):
            with pytest.raises(TooMany):
                await at.enters(text)


async def test_who_brings_nothing_has_not_failed() -> None:
    async with scene(failures=1) as at:
        for _ in range(3):
            with pytest.raises(NotAuthenticated):
                await at.gatekeeper.caller(None, None, HOME)
        await at.refused("x")
        with pytest.raises(NotAuthenticated):
            await at.gatekeeper.caller(None, None, HOME)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::2", True),
        ("2001:db8:1:2::1", "2001:0DB8:1:2::1%eth0", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("203.0.113.7", "203.0.113.8", False),
        ("::ffff:203.0.113.7", "::ffff:203.0.113.8", False),
        ("::ffff:203.0.113.7", "203.0.113.7", True),
        ("", "", True),
        ("unix:", "testclient", False),
    ],
)
async def test_whose_address_it_is(one: str, other: str, same: bool) -> None:
    async with scene(failures=1) as at:
        await at.refused("x", one)
        with pytest.raises(TooMany if same else NotAuthenticated):
            await at.enters("x", other)


async def test_keys_that_cannot_be_read_are_nobodys_failure(tmp_path: Path) -> None:
    store = SqlSessionStore(f"sqlite:///{tmp_path}/nowhere/x.db")
    gatekeeper = Authenticator("shop", BOTH, CallerLimits(failures=1), store.keys)
    try:
        for _ in range(3):
            with pytest.raises(StoreError):
                await gatekeeper.caller("Bearer tw_000000000000_" + "A" * 43, None, HOME)
    finally:
        await store.close()


def test_a_door_that_opens_for_nobody_is_refused() -> None:
    for auth in (AuthConfig(), BOTH):
        with pytest.raises(ConfigError, match="this session store keeps none"):
            Authenticator("shop", auth, CallerLimits())
    with pytest.raises(ConfigError, match="Nobody could get in"):
        Authenticator("shop", AuthConfig(keys=False), CallerLimits())
    with pytest.raises(ConfigError, match="shorter than the hash"):
        Authenticator("shop", AuthConfig(keys=False, jwt=JwtConfig(algorithms=("HS256",), key="x")), CallerLimits())


async def test_a_store_keeps_keys_or_says_so() -> None:
    store: Any = SqlSessionStore("sqlite://")
    assert key_store_of(store) is store
    with pytest.raises(ConfigError, match="A dict keeps no API keys"):
        key_store_of({})
