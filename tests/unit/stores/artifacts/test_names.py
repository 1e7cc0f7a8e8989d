"""names: which names are accepted and where artifacts have their place."""

import pytest
from hypothesis import given, settings, strategies as st

from turnwise.facts.errors import ArtifactError, ArtifactName, ArtifactTooLarge
from turnwise.facts.sessions import SessionKey
from turnwise.stores.artifacts import names
from turnwise.testing import artifact_store_suite

KEY = SessionKey("shop", "ann", "s1")
anything = st.text(st.characters(), max_size=120)


@pytest.mark.parametrize("name", artifact_store_suite.GOOD_NAMES)
def test_good_names_are_accepted(name: str) -> None:
    """A28"""
    assert names.check_name(name) == name
    assert names.check_name(f"user:{name}") == f"user:{name}"


@pytest.mark.parametrize("name", artifact_store_suite.BAD_NAMES)
def test_bad_names_are_refused(name: str) -> None:
    """A28"""
    with pytest.raises(ArtifactName):
        names.artifact_path(KEY, name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("user:", "is empty"),
        ("a\0b", "control character"),
        ("/a", "absolute path"),
        ("a\\b", "backslash"),
        ("a/../b", "'..'"),
        ("x" * 300, "longer than 255 bytes"),
    ],
)
def test_the_error_says_what_is_wrong_and_stays_short(name: str, words: str) -> None:
    with pytest.raises(ArtifactName) as caught:
        names.check_name(name)
    assert words in caught.value.problem
    assert "report.pdf" in caught.value.fix
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


def test_an_artifact_is_below_its_session_or_its_user() -> None:
    """A28"""
    assert names.artifact_path(KEY, "a/b") == ("shop", "ann", "sessions", "s1", "a%2Fb")
    assert names.artifact_path(KEY, "user:a") == ("shop", "ann", "user", "a")
    assert names.artifact_path(KEY, "a")[:4] == names.session_path(KEY)
    assert names.artifact_path(KEY, "user:a")[:3] == names.shared_path(KEY)
    assert names.shared_path(KEY)[:2] == names.user_path("shop", "ann")


@given(anything)
def test_an_encoded_part_stays_one_safe_part(part: str) -> None:
    """A28"""
    encoded = names.encode(part)
    assert encoded.isascii()
    assert encoded.isprintable()
    assert encoded not in {"", ".", ".."}
    assert not encoded.startswith(".")
    assert not set(encoded) & set('/\\:*?"<>| ')
    assert len(encoded) <= 200


@settings(max_examples=100)
@given(anything, anything)
def test_different_parts_are_encoded_differently(one: str, other: str) -> None:
    assert (names.encode(one) == names.encode(other)) == (one == other)


def test_long_parts_with_one_beginning_are_encoded_differently() -> None:
    assert names.encode("x" * 200) == "x" * 200
    assert len({names.encode("x" * 300 + end) for end in ("", "a", "b")}) == 3


def test_what_is_saved_is_checked() -> None:
    names.check_artifact("a", 10, 'text/plain; charset="utf-8"', 10)
    with pytest.raises(ArtifactTooLarge, match="11 bytes, more than the 10 allowed"):
        names.check_artifact("a", 11, "text/plain", 10)
    with pytest.raises(ArtifactError, match="MIME type"):
        names.check_artifact("a", 1, "text/plain\r\nx: y", 10)
    with pytest.raises(ArtifactName):
        names.check_artifact("../a", 1, "text/plain", 10)
