"""Addresses, options and names of the Restate dispatcher. None of it needs a server."""

import re

import pytest
from hypothesis import given, strategies as st

from turnwise.dispatch.engine import EngineSettings
from turnwise.dispatch.restate import WorkerAddress
from turnwise.dispatch.restate_client import RestateAddress, object_of, service_of, session_of
from turnwise.errors import EngineError
from turnwise.facts.sessions import SessionKey

IDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30)


@given(IDS, IDS, IDS)
def test_a_session_is_found_by_its_name(app: str, user: str, id_: str) -> None:
    key = SessionKey(app, user, id_)
    assert session_of(app, object_of(key)) == key
    assert object_of(key).count("/") == 1


@given(IDS, IDS)
def test_apps_have_names_of_their_own_that_restate_accepts(one: str, other: str) -> None:
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9._-]*", service_of(one))
    assert (service_of(one) == service_of(other)) == (one == other)


@pytest.mark.parametrize(
    ("text", "ingress", "admin"),
    [
        ("restate://engine", "http://engine:8080", "http://engine:9070"),
        ("restate://engine:1/", "http://engine:1", "http://engine:9070"),
        ("restates://engine:443?admin=444", "https://engine:443", "https://engine:444"),
        ("restate://[::1]:8080", "http://[::1]:8080", "http://[::1]:9070"),
    ],
)
def test_an_address_has_two_ports(text: str, ingress: str, admin: str) -> None:
    assert RestateAddress.parse(text) == RestateAddress(ingress, admin)


@pytest.mark.parametrize(
    "text",
    [
        *("", "engine", "http://engine", "restate://", "restate://engine:x", "restate://engine:99999", "restate://engine/path"),
        *(
            "restate://engine?admin=x",
            "restate://engine?other=1",
            "restate://engine?admin",
            "restate://[::1",
            "temporal://engine",
        ),
    ],
)
def test_no_other_address_is_accepted(text: str) -> None:
    with pytest.raises(EngineError, match="is no address of an engine"):
        RestateAddress.parse(text)


def test_an_address_with_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(EngineError) as refused:
        RestateAddress.parse("restate://ann:sesame@engine")
    assert "sesame" not in str(refused.value)


def test_a_public_worker_needs_a_key() -> None:
    with pytest.raises(EngineError, match="no key of the engine is given"):
        WorkerAddress("0.0.0.0", 9080)
    with pytest.raises(EngineError, match="no public key"):
        WorkerAddress("0.0.0.0", 9080, keys=("secret",))
    WorkerAddress("0.0.0.0", 9080, keys=("publickeyv1_x",))


@pytest.mark.parametrize("listen", ["", "9080", "host:", ":9080", "host:x", "host:65536", "host:²"])
def test_a_worker_listens_at_a_host_and_a_port(listen: str) -> None:
    pytest.importorskip("restate")
    with pytest.raises(EngineError, match="is no address to listen at"):
        EngineSettings("restate://engine", listen=listen).open("app", 1)
