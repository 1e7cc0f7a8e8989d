"""API keys: what they look like, what is kept of them, and which rights make sense."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from turnwise.access.api_keys import caller_of, is_valid, matches, new_key, read_key
from turnwise.facts.callers import Caller
from turnwise.facts.errors import RequestInvalid

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def test_a_key_is_text_that_finds_and_proves_itself() -> None:
    text, key = new_key("laptop", NOW, user="ann")
    assert re.fullmatch(r"tw_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", text)
    read = read_key(text)
    assert read is not None
    id_, secret = read
    assert id_ == key.id
    assert matches(key, secret)
    assert (key.name, key.user, key.created_at, key.expires_at) == ("laptop", "ann", NOW, None)


def test_nothing_of_the_secret_is_kept() -> None:
    text, key = new_key("laptop", NOW, user="ann")
    kept = key.model_dump_json()
    assert text[16:] not in kept
    assert key.hash not in repr(key)


def test_no_two_keys_are_alike() -> None:
    made = [new_key("x", NOW, user="ann") for _ in range(50)]
    assert len({text for text, _ in made}) == len({key.id for _, key in made}) == len({key.hash for _, key in made}) == 50


def test_another_secret_does_not_match() -> None:
    text, key = new_key("laptop", NOW, user="ann")
    secret = text[16:]
    changed = [secret[:at] + ("A" if secret[at] != "A" else "B") + secret[at + 1 :] for at in range(len(secret))]
    assert not any(matches(key, each) for each in [*changed, "", secret + "A", secret[:-1], "é", "\ud800"])


@given(st.text() | st.from_regex(r"tw_[0-9a-zA-Z]{10,14}_[\w-]{40,46}\n?"))
def test_whatever_is_no_key_is_read_as_none(text: str) -> None:
    read = read_key(text)
    if read is not None:
        assert text == f"tw_{read[0]}_{read[1]}"
        assert text.isascii()
        assert len(text) == 59


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + "\n",
        lambda text: " " + text,
        lambda text: text[:-1],
        lambda text: text + "A",
        lambda text: text.upper(),
        lambda text: text.replace("tw_", "tx_"),
        lambda text: text[:3] + "é" + text[4:],
        lambda text: text * 100_000,
    ],
)
def test_a_key_that_is_not_whole_is_none(change: Any) -> None:
    text, _ = new_key("x", NOW, user="ann")
    assert read_key(change(text)) is None


def test_a_key_counts_until_it_expires() -> None:
    _, key = new_key("x", NOW, user="ann", lifetime=timedelta(days=1))
    assert is_valid(key, NOW + timedelta(days=1, microseconds=-1))
    assert not is_valid(key, NOW + timedelta(days=1))
    assert is_valid(new_key("x", NOW, user="ann")[1], datetime.max.replace(tzinfo=UTC))


def test_the_caller_is_what_the_key_says() -> None:
    _, key = new_key("x", NOW, user="ann", agent_roles=["staff", "staff"], scopes=["sessions:read"])
    assert caller_of(key) == Caller(id=f"key:{key.id}", user="ann", agent_roles=("staff",), scopes=("sessions:read",))
    _, key = new_key("x", NOW, acts_for_users=True)
    assert caller_of(key) == Caller(id=f"key:{key.id}", acts_for_users=True)
    _, key = new_key("x", NOW, role="operator")
    assert caller_of(key) == Caller(id=f"key:{key.id}", role="operator")
    assert caller_of(new_key("x", NOW, role="admin", user="root")[1]).user == "root"


@pytest.mark.parametrize(
    ("rights", "where", "problem"),
    [
        ({}, "user", "API key needs a user"),
        ({"user": "ann", "acts_for_users": True}, "user", "belongs to one user"),
        ({"role": "operator", "acts_for_users": True}, "role", "not what an operator may"),
        ({"role": "admin", "acts_for_users": True}, "role", "not what an admin may"),
        ({"role": "boss"}, "role", "no role 'boss'"),
        ({"user": ""}, "user", "id of the user"),
        ({"user": "a\0b"}, "user", "id of the user"),
        ({"user": "\ud800"}, "user", "id of the user"),
        ({"user": "x" * 201}, "user", "id of the user"),
        ({"user": "ann", "agent_roles": [""]}, "agent_roles", "agent role is not valid"),
        ({"user": "ann", "agent_roles": ["a\nb"]}, "agent_roles", "agent role is not valid"),
        ({"user": "ann", "agent_roles": ["x" * 101]}, "agent_roles", "agent role is not valid"),
        ({"user": "ann", "agent_roles": [str(n) for n in range(101)]}, "agent_roles", "100 agent roles"),
        ({"user": "ann", "scopes": ["sessions:eat"]}, "scopes", "no scope 'sessions:eat'"),
        ({"user": "ann", "scopes": ["metrics:read"]}, "scopes", "more than the role 'user'"),
        ({"user": "ann", "lifetime": timedelta()}, "expires_at", "lifetime of a key"),
        ({"user": "ann", "lifetime": timedelta.max}, "expires_at", "lifetime of a key"),
    ],
)
def test_rights_that_make_no_sense_are_refused(rights: dict[str, Any], where: str, problem: str) -> None:
    with pytest.raises(RequestInvalid, match=problem) as refused:
        new_key("x", NOW, **rights)
    assert refused.value.where == (where,)
    assert refused.value.fix


@pytest.mark.parametrize("name", ["", " ", " x", "x\n", "\x1b[31m", "\ud800", "x" * 101])
def test_a_name_is_for_people_to_read(name: str) -> None:
    with pytest.raises(RequestInvalid) as refused:
        new_key(name, NOW, user="ann")
    assert refused.value.where == ("name",)
