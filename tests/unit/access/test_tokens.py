"""Tokens: which count, whom they make, and which configurations are refused."""

import base64
import json
import time
from typing import Any

import jwt
import pytest
from access_play import SECRET, ec_key, jwk, private_pem, public_pem, rsa_key, token
from hypothesis import example, given, strategies as st

from turnwise.access.tokens import Tokens
from turnwise.facts.callers import Caller
from turnwise.facts.errors import ConfigError
from turnwise.facts.gateway import JwtConfig

HS = JwtConfig(algorithms=("HS256",), key=SECRET)
ANN = Caller(id="token:ann", user="ann")


def hs(**fields: Any) -> Tokens:
    return Tokens(HS.replace(**fields))


async def test_a_token_makes_its_subject_the_user() -> None:
    assert await hs().caller(token()) == ANN


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "ES256"])
async def test_public_keys_check_what_private_keys_signed(algorithm: Any) -> None:
    key, other = (rsa_key(), rsa_key("other")) if algorithm.startswith("RS") else (ec_key(), ec_key("other"))
    tokens = Tokens(JwtConfig(algorithms=(algorithm,), key=public_pem(key)))
    assert await tokens.caller(token(key, algorithm)) == ANN
    assert await tokens.caller(token(other, algorithm)) is None


@pytest.mark.parametrize(
    ("claims", "caller"),
    [
        ({"turnwise_role": "operator"}, {"role": "operator"}),
        ({"turnwise_role": "user"}, {}),
        ({"roles": ["staff", "human resources", "staff"]}, {"agent_roles": ("staff", "human resources")}),
        ({"roles": " staff  sales "}, {"agent_roles": ("staff", "sales")}),
        ({"roles": []}, {}),
        ({"roles": ""}, {}),
        ({"scope": "sessions:read", "acts_for_users": True, "scopes": ["x"]}, {}),
        ({"iat": 0, "nbf": 0, "jti": "x"}, {}),
    ],
)
async def test_claims_say_what_the_caller_is(claims: dict[str, Any], caller: dict[str, Any]) -> None:
    """C20"""
    assert await hs().caller(token(**claims)) == ANN.replace(**caller)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": 0}, "ExpiredSignatureError"),
        ({"exp": None}, "MissingRequiredClaimError"),
        ({"aud": "other"}, "InvalidAudienceError"),
        ({"iss": "https://id2"}, "InvalidIssuerError"),
        ({"turnwise_role": "root"}, "InvalidClaims"),
    ],
)
async def test_why_a_token_does_not_count_is_in_the_log_alone(
    claims: dict[str, Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "turnwise.access")
    given = {"iss": "https://id", "aud": "shop", **claims}
    assert await hs(issuer="https://id", audience="shop").caller(token(**given)) is None
    assert caplog.messages == [f"A token does not count: {why}"]


async def test_the_claims_names_are_configured() -> None:
    tokens = hs(user_claim="email", role_claim="rank", agent_roles_claim="groups")
    found = await tokens.caller(token(email="a@b.c", rank="admin", groups=["staff"], roles=["no"]))
    assert found == Caller(id="token:ann", role="admin", user="a@b.c", agent_roles=("staff",))
    assert await tokens.caller(token(sub=None, email="a@b.c")) == Caller(id="token:a@b.c", user="a@b.c")
    assert await tokens.caller(token()) is None, "without the claim it is nobody's"


async def test_issuer_and_audience_are_looked_at_when_they_are_configured() -> None:
    picky = hs(issuer="https://id", audience="shop")
    good = {"iss": "https://id", "aud": "shop"}
    assert await picky.caller(token(**good)) == ANN
    assert await picky.caller(token(**good | {"aud": ["other", "shop"]})) == ANN
    for wrong in (
        {"iss": None},
        {"iss": "https://id2"},
        {"aud": None},
        {"aud": "other"},
        {"aud": ["other"]},
        {"iss": ["https://id"]},
    ):
        claims = {name: value for name, value in {**good, **wrong}.items() if value is not None}
        assert await picky.caller(_signed(claims)) is None, wrong
    assert await hs().caller(token(iss="anybody")) == ANN
    assert await hs().caller(token(aud="shop")) is None, "it is for somebody, of whom nothing is known here"


def _signed(claims: dict[str, Any], **header: Any) -> str:
    """A token with exactly these claims, made by hand: a library would refuse to make some."""
    parts = [{"alg": "HS256", **header}, {"sub": "ann", "exp": time.time() + 60, **claims}]
    text = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    signature = jwt.get_algorithm_by_name("HS256").sign(text.encode(), SECRET.encode())
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


async def test_what_is_made_by_hand_counts_as_what_a_library_makes() -> None:
    """Else the tests below would say nothing."""
    assert await hs().caller(_signed({})) == ANN


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": 1},
        {"exp": None},
        {"exp": "soon"},
        {"exp": [1]},
        {"exp": float("inf")},
        {"exp": float("nan")},
        {"nbf": 1e12},
        {"iat": 1e12},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "a\0b"},
        {"sub": "\ud800"},
        {"sub": "x" * 201},
        {"turnwise_role": "root"},
        {"turnwise_role": None},
        {"turnwise_role": ["admin"]},
        {"turnwise_role": {"admin": 1}},
        {"roles": 7},
        {"roles": {"staff": 1}},
        {"roles": ["staff", 7]},
        {"roles": ["\ud800"]},
        {"roles": [""]},
    ],
)
async def test_a_token_that_does_not_say_it_right_does_not_count(claims: dict[str, Any]) -> None:
    assert await hs().caller(_signed(claims)) is None


async def test_the_clocks_may_differ_a_little() -> None:
    for claims in ({"exp": time.time() - 20}, {"nbf": time.time() + 20}, {"iat": time.time() + 20}):
        assert await hs(leeway_seconds=60.0).caller(token(**claims)) == ANN
        assert await hs(leeway_seconds=0.0).caller(token(**claims)) is None


@pytest.mark.parametrize(
    "forged",
    [
        lambda text: text[:-4] + ("AAAA" if text[-4:] != "AAAA" else "BBBB"),
        lambda text: text + "AAAA",
        lambda text: text.rsplit(".", 1)[0] + ".",
        lambda text: ".".join([text.split(".")[0], token(sub="bob").split(".")[1], text.split(".")[2]]),
        lambda text: text.replace(".", "..", 1),
        lambda text: f"{text}.{text}",
        lambda text: "\ud800" + text,
    ],
)
async def test_a_token_that_was_changed_does_not_count(forged: Any) -> None:
    assert await hs().caller(token()) == ANN
    assert await hs().caller(forged(token())) is None


async def test_a_token_does_not_choose_how_it_is_checked() -> None:
    pem = public_pem(rsa_key())
    tokens = Tokens(JwtConfig(algorithms=("RS256",), key=pem))
    assert await tokens.caller(token(rsa_key(), "RS256")) == ANN
    assert await tokens.caller(token(rsa_key(), "RS384")) is None
    unsigned = jwt.encode({"sub": "ann", "exp": time.time() + 60}, "", algorithm="none")
    assert await tokens.caller(unsigned) is None
    assert await hs().caller(unsigned) is None
    # Signed with the public key, as if it were a shared secret.
    text = _signed({})
    signature = jwt.get_algorithm_by_name("HS256").sign(text.rpartition(".")[0].encode(), pem.encode())
    confused = text.rpartition(".")[0] + "." + base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
    assert await tokens.caller(confused) is None
    for header in (
        {"alg": "none"},
        {"alg": None},
        {"alg": ["HS256"]},
        {"kid": 7},
        {"crit": ["x"]},
        {"b64": False},
        {"alg": "HS512"},
    ):
        assert await hs().caller(_signed({}, **header)) is None, header


_NESTED = base64.urlsafe_b64encode(b'{"alg":' + b"[" * 5_000).decode().rstrip("=")
_DIGITS = base64.urlsafe_b64encode(b'{"alg":"HS256","x":' + b"9" * 5_000 + b"}").decode().rstrip("=")


@given(
    st.text()
    | st.from_regex(r"[\w-]*\.[\w-]*\.[\w-]*")
    | st.builds(
        lambda header, payload, rest: ".".join(
            [*(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, payload)), rest]
        ),
        st.dictionaries(st.sampled_from(["alg", "kid", "crit", "b64", "typ"]), st.none() | st.text(max_size=8) | st.booleans())
        | st.fixed_dictionaries({"alg": st.just("HS256")})
        | st.lists(st.integers()),
        st.dictionaries(st.sampled_from(["exp", "sub", "aud"]), st.floats() | st.text(max_size=8) | st.lists(st.none())),
        st.sampled_from(["", "AAAA", "é"]),
    )
)
@example(f"{_NESTED}.e30.AAAA")
@example(f"{_DIGITS}.e30.AAAA")
@example("\ud800.\ud800.\ud800")
def test_whatever_is_no_token_is_nobody(text: str) -> None:
    """Any text at all: no exception."""
    asked = hs().caller(text)
    with pytest.raises(StopIteration) as answered:  # it waits for nothing
        asked.send(None)
    assert answered.value.value is None


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"algorithms": ("HS256", "RS256"), "key": SECRET}, "mixes"),
        ({"algorithms": ("HS256",), "key": public_pem(rsa_key())}, "no shared secret"),
        ({"algorithms": ("HS256",), "key": json.dumps(jwk(rsa_key(), "a"))}, "no shared secret"),
        ({"algorithms": ("HS256",), "key": ""}, "no shared secret"),
        ({"algorithms": ("HS256",), "key": "\ud800" * 50}, "no shared secret"),
        ({"algorithms": ("HS256",), "key": "x" * 31}, "shorter than the hash of HS256"),
        ({"algorithms": ("HS256", "HS512"), "key": "x" * 63}, "shorter than the hash of HS512"),
        ({"algorithms": ("HS256",), "jwks_url": "https://id/keys"}, "no shared secrets"),
        ({"algorithms": ("RS256",), "key": SECRET}, "no public key for RS256"),
        ({"algorithms": ("RS256", "ES256"), "key": public_pem(rsa_key())}, "no public key for ES256"),
        ({"algorithms": ("ES384",), "key": public_pem(ec_key())}, "no public key for ES384"),
        ({"algorithms": ("RS256",), "key": private_pem(rsa_key())}, "is a private key"),
        ({"algorithms": ("ES256",), "key": private_pem(ec_key())}, "is a private key"),
        ({"algorithms": ("RS256",), "key": public_pem(rsa_key("weak", 1024))}, "too short"),
        ({"algorithms": ("RS256",)}, "a key or a jwks_url"),
        ({"algorithms": ("RS256",), "key": public_pem(rsa_key()), "jwks_url": "https://id/keys"}, "not both"),
        ({"algorithms": ("RS256",), "jwks_url": "file:///etc/passwd"}, "no URL"),
        ({"algorithms": ("RS256",), "jwks_url": "https://"}, "no URL"),
        ({"algorithms": ("RS256",), "jwks_url": "https://[::"}, "no URL"),
        ({"algorithms": ("RS256",), "jwks_url": "https://host/a b"}, "no URL"),
    ],
)
def test_what_would_let_anybody_in_is_refused_at_the_start(config: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        Tokens(JwtConfig(**config))
    assert refused.value.fix
    key = config.get("key")
    assert not key or key not in str(refused.value)


def test_a_secret_as_long_as_the_hash_is_long_enough() -> None:
    Tokens(JwtConfig(algorithms=("HS256",), key="x" * 32))
    Tokens(JwtConfig(algorithms=("HS512", "HS384"), key="x" * 64))
