import pytest
from hypothesis import given, strategies as st

from turnwise.telemetry.logs import redacted

SECRET = "Zq3-" + "x7Y_" * 9 + "abc"  # 43 characters, as an API key's
HIDDEN = {
    f"key tw_0123456789ab_{SECRET} used": "key tw_0123456789ab_*** used",
    f"tw_{SECRET}": "tw_***",
    f"Authorization: Bearer {SECRET}": "Authorization: Bearer ***",
    f"Authorization: Bearer tw_0123456789ab_{SECRET}": "Authorization: Bearer ***",
    "{'authorization': 'Bearer abcdef123'}": "{'authorization': 'Bearer ***'}",
    "bearer%20abcdef123": "bearer ***",
    "Authorization: Basic YWRhOnNlY3JldA==": "Authorization: Basic ***",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl": "***",
    "x-eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl": "x-***",
    "http://a:b@h,http://c:d@h": "http://a:***@h",
    "postgresql://ada:pa@ss/w0rd@host/db": "postgresql://ada:***@host/db",
    "redis://:hunter2@host:6379": "redis://:***@host:6379",
    "dsn=postgresql://ada:hunter2@host/db?sslmode=require": "dsn=postgresql://ada:***@host/db?sslmode=require",
    "host=h password=hunter2 user=ada": "host=h password=*** user=ada",
    '{"api_key": "abc", "model": "m"}': '{"api_key": "***", "model": "m"}',
    "https://host/x?token=abc&page=2": "https://host/x?token=***&page=2",
    "sk-" + "a1B2" * 6: "sk-***",
    "sk-" + "ant-" + "a1B2" * 6: "sk-ant-***",
    "AIza" + "a1B2-" * 7: "***",
}


@pytest.mark.parametrize("text", HIDDEN)
def test_secrets_are_taken_out(text: str) -> None:
    assert redacted(text) == HIDDEN[text]


@pytest.mark.parametrize("text", HIDDEN)
def test_what_was_taken_out_stays_so(text: str) -> None:
    assert redacted(redacted(text)) == redacted(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:8000/api/v1/sessions",
        "input_tokens=12 output_tokens=3",
        "basic information is fine, and so is a bearer of news",
        "The password is wrong.",
        "GET /api/v1/sessions/{session_id} 200 in 3.1 ms",
        "invocation-01a2032219b6e8dbd4a8f8333e16",
        "tw_short",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_key_is_found_in_any_text(before: str, after: str) -> None:
    assert SECRET not in redacted(f"{before} tw_0123456789ab_{SECRET} {after}")


@given(st.text(alphabet="abc@/:?#%&= ", max_size=30).filter(str.strip))
def test_whatever_stands_for_a_password_is_gone(password: str) -> None:
    password = "hunter" + password.replace(" ", "")
    assert "hunter" not in redacted(f"postgresql://ada:{password}@host/db")


@pytest.mark.parametrize("piece", ["://:", "-eyJaaaaaaaa", "a-eyJ", "://a:***@"])
def test_a_long_text_that_looks_like_secrets_and_is_none_takes_no_time(piece: str) -> None:
    """Whoever writes it into a request must not hold up the process: with a look to the end behind each piece it is minutes."""
    text = piece * (400_000 // len(piece))
    assert redacted(text) == text
