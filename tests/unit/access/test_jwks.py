"""Keys that are published at a URL: a real server on this machine."""

import asyncio
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from access_play import Clock, Publisher, ec_key, jwk, publishing, rsa_key, token

from turnwise.access.tokens import (
    FRESH_SECONDS,
    MOST_BYTES,
    RETRY_SECONDS,
    STALE_SECONDS,
    UNKNOWN_KEY_SECONDS,
    JwksClient,
    Tokens,
)
from turnwise.facts.callers import Caller
from turnwise.facts.errors import ConfigError, StoreUnavailable
from turnwise.facts.gateway import JwtConfig

ANN = Caller(id="token:ann", user="ann")


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    with publishing() as it:
        yield it


async def found(keys: JwksClient, id: str | None, algorithm: str = "RS256") -> Any:
    key = await keys.find(id, algorithm)
    return None if key is None else key.key


async def test_tokens_are_checked_with_the_key_they_name(publisher: Publisher) -> None:
    publisher.publish(jwk(rsa_key("one"), "1"), jwk(rsa_key("two"), "2", alg="RS256", use="sig"), jwk(ec_key(), "3"))
    tokens = Tokens(JwtConfig(algorithms=("RS256", "RS512", "ES256"), jwks_url=publisher.url))
    assert await tokens.caller(token(rsa_key("one"), "RS256", "1")) == ANN
    assert await tokens.caller(token(rsa_key("one"), "RS512", "1")) == ANN, "it does not say that it is for one alone"
    assert await tokens.caller(token(rsa_key("two"), "RS256", "2")) == ANN
    assert await tokens.caller(token(rsa_key("two"), "RS512", "2")) is None
    assert await tokens.caller(token(ec_key(), "ES256", "3")) == ANN
    assert await tokens.caller(token(rsa_key("one"), "RS256", "2")) is None
    assert await tokens.caller(token(rsa_key("one"), "RS256", "3")) is None
    assert await tokens.caller(token(rsa_key("one"), "RS256")) is None, "which of both is not said"
    assert publisher.asked == 1


async def test_a_token_that_names_no_key_has_the_only_one(publisher: Publisher) -> None:
    publisher.publish(jwk(rsa_key(), None), jwk(ec_key(), "3"))
    keys = JwksClient(publisher.url)
    assert await found(keys, None) == rsa_key().public_key()
    assert await found(keys, "1") is None


async def test_a_new_key_is_looked_for_but_not_all_the_time(publisher: Publisher) -> None:
    clock = Clock()
    keys = JwksClient(publisher.url, clock=clock)
    publisher.publish(jwk(rsa_key("one"), "1"))
    assert await found(keys, "1") == rsa_key("one").public_key()
    publisher.publish(jwk(rsa_key("two"), "2"))
    assert await found(keys, "2") is None
    assert await found(keys, "1") is not None
    assert publisher.asked == 1
    clock.now += UNKNOWN_KEY_SECONDS
    assert await found(keys, "2") == rsa_key("two").public_key()
    assert await found(keys, "1") is None, "it is published no longer"
    assert publisher.asked == 2
    clock.now += FRESH_SECONDS - 1
    assert await found(keys, "2") is not None
    assert publisher.asked == 2
    clock.now += 1
    assert await found(keys, "2") is not None
    assert publisher.asked == 3


async def test_all_who_wait_wait_for_one_answer(publisher: Publisher) -> None:
    publisher.publish(jwk(rsa_key(), "1"))
    publisher.answers.clear()
    keys = JwksClient(publisher.url)
    asking = [asyncio.create_task(found(keys, "1")) for _ in range(20)]
    gone = asyncio.create_task(found(keys, "1"))
    await asyncio.sleep(0)
    gone.cancel()
    publisher.answers.set()
    assert await asyncio.gather(*asking) == [rsa_key().public_key()] * 20
    assert publisher.asked == 1


async def test_an_outage_there_is_none_here_for_a_while(publisher: Publisher, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    keys = JwksClient(publisher.url, clock=clock)
    publisher.publish(jwk(rsa_key(), "1"))
    await found(keys, "1")
    publisher.status, publisher.body = 503, b"away"
    clock.now += STALE_SECONDS - 1
    with caplog.at_level(logging.WARNING, "turnwise.access"):
        for _ in range(3):
            assert await found(keys, "1") == rsa_key().public_key()
    assert publisher.asked == 2, "whoever is away is not asked at every request"
    assert "127.0.0.1 cannot be fetched: HTTPError: HTTP Error 503" in caplog.text
    clock.now += 1
    with pytest.raises(StoreUnavailable, match="cannot be fetched"):
        await keys.find("1", "RS256")
    publisher.publish(jwk(rsa_key("two"), "2"))
    clock.now += UNKNOWN_KEY_SECONDS
    assert await found(keys, "2") == rsa_key("two").public_key()


async def test_without_any_keys_nobody_can_say_whether_a_token_counts(publisher: Publisher) -> None:
    clock = Clock()
    keys = JwksClient(publisher.url, clock=clock)
    publisher.status = 404
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await keys.find("1", "RS256")
    assert publisher.asked == 1
    publisher.publish(jwk(rsa_key(), "1"))
    clock.now += RETRY_SECONDS
    assert await found(keys, "1") == rsa_key().public_key()


async def test_a_place_where_nobody_is() -> None:
    with publishing() as gone:
        pass
    tokens = Tokens(JwtConfig(jwks_url=gone.url))
    with pytest.raises(StoreUnavailable):
        await tokens.caller(token(rsa_key(), "RS256", "1"))
    assert await tokens.caller("no token") is None
    assert await tokens.caller(token()) is None, "what could never count needs no key"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"keys": {}}',
        b'{"keys": []}',
        b'{"keys": [7, null, {}, {"kty": "RSA"}, {"kty": []}, {"kty": "RSA", "n": 1, "e": 2, "kid": "1"}]}',
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "1"}]}',
        b"\xff\xfe",
        b"[" * 100_000,
        b" " * (MOST_BYTES + 1),
    ],
)
async def test_what_is_no_set_of_public_keys_is_as_good_as_nothing(publisher: Publisher, body: bytes) -> None:
    publisher.body = body
    with pytest.raises(StoreUnavailable):
        await JwksClient(publisher.url).find("1", "RS256")


async def test_what_is_no_key_for_signatures_is_passed_over(publisher: Publisher) -> None:
    good = jwk(rsa_key(), "1")
    publisher.publish(
        jwk(rsa_key("enc"), "2", use="enc"),
        jwk(rsa_key("enc"), "3", alg="RSA-OAEP"),
        jwk(rsa_key("enc"), "4", alg=["RS256"]),
        {"kty": "oct", "k": "c2VjcmV0", "kid": "5"},
        good,
        jwk(rsa_key("odd"), None, kid=["6"]),
    )
    keys = JwksClient(publisher.url)
    assert await found(keys, "1") == rsa_key().public_key()
    assert [await found(keys, id) for id in "23456"] == [None] * 5


async def test_a_published_key_that_is_too_short_checks_nothing(publisher: Publisher) -> None:
    publisher.publish(jwk(rsa_key("weak", 1024), "1"))
    assert await Tokens(JwtConfig(jwks_url=publisher.url)).caller(_weak_token()) is None


def _weak_token() -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return token(rsa_key("weak", 1024), "RS256", "1")


async def test_nobody_is_sent_elsewhere_for_keys(publisher: Publisher) -> None:
    with publishing() as elsewhere:
        elsewhere.publish(jwk(rsa_key(), "1"))
        publisher.status, publisher.headers = 302, {"Location": elsewhere.url}
        with pytest.raises(StoreUnavailable):
            await JwksClient(publisher.url).find("1", "RS256")
        assert elsewhere.asked == 0


async def test_a_place_that_is_silent_holds_up_nobody_else(publisher: Publisher) -> None:
    """The event loop goes on while it is waited for."""
    publisher.publish(jwk(rsa_key(), "1"))
    publisher.answers.clear()
    asking = asyncio.create_task(found(JwksClient(publisher.url), "1"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not asking.done()
    publisher.answers.set()
    assert await asking == rsa_key().public_key()


async def test_a_place_that_is_silent_holds_up_nobody_whose_key_is_known(
    publisher: Publisher, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    keys = JwksClient(publisher.url, clock=clock)
    publisher.publish(jwk(rsa_key("one"), "1"))
    await found(keys, "1")
    publisher.publish(jwk(rsa_key("two"), "2"))
    publisher.answers.clear()
    clock.now += FRESH_SECONDS
    assert await found(keys, "1") == rsa_key("one").public_key()
    assert caplog.text == "", "it is still waited for, though not here"
    publisher.answers.set()
    assert await found(keys, "2") == rsa_key("two").public_key()
    assert publisher.asked == 2


@pytest.mark.parametrize("url", ["https://ann:hunter2@host/keys", "https://ann@host/keys"])
def test_a_url_with_a_password_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigError, match="holds a user or a password") as refused:
        JwksClient(url)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("url", ["https://host:abc/keys", "https://host:0/keys", "https://host:70000/keys"])
def test_a_url_with_no_port_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="is no URL"):
        JwksClient(url)
