"""Where a gateway is, and the key for it."""

import pytest

from turnwise.client.connection import check_key, check_url, is_this_machine
from turnwise.facts.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000"),
        (" https://example.com/turnwise/ ", "https://example.com/turnwise"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_what_is_an_address_is_kept_without_its_last_slash(given: str, kept: str) -> None:
    assert check_url(given) == kept


@pytest.mark.parametrize(
    "given",
    [
        "",
        "localhost:8000",
        "127.0.0.1",
        "ftp://host",
        "http://",
        "http://[::1",
        "http://h:99999",
        "http://h/?a=1",
        "http://h/#a",
    ],
)
def test_what_is_no_address_is_refused_at_once(given: str) -> None:
    with pytest.raises(ConfigError, match="is no address of a gateway") as caught:
        check_url(given)
    assert repr(given) in caught.value.problem


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(ConfigError) as caught:
        check_url("ftp://ann:secret@host")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://localhost:1", "http://127.0.0.1", "http://127.1.2.3", "http://[::1]:2", "http://a.localhost"]
)
def test_this_machine(url: str) -> None:
    assert is_this_machine(url)


@pytest.mark.parametrize("url", ["http://example.com", "http://10.0.0.1", "http://[fe80::1]", "http://localhost.example.com"])
def test_other_machines(url: str) -> None:
    assert not is_this_machine(url)


def test_a_key_out_of_a_file_loses_the_space_around_it() -> None:
    assert check_key(" tw_abc\n") == "tw_abc"
    assert check_key(None) is None


@pytest.mark.parametrize("key", ["", "  ", "tw_a b", "tw_ä", "tw_a\nX-Other: b"])
def test_what_can_be_no_key_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(ConfigError, match="key is empty, or contains invalid characters") as caught:
        check_key(key)
    assert not key.strip() or key.strip() not in str(caught.value)
