"""How secrets are recognised (C13)."""

import pytest

from turnwise.guardrails.replacing import with_labels
from turnwise.guardrails.secrets import find

PEM = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEpAIBAAKCAQEA7x\nabc=\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sk-proj-" + "aB3_" * 10 + ".", "[key]."),
        ("use AKIAIOSFODNN7EXAMPLE now", "use [key] now"),
        ("ghp_" + "a1" * 18, "[key]"),
        ("xoxb-123456789012-abc", "[key]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_", "[token]"),
        ("Authorization: Bearer abc123DEF456ghi789", "Authorization: Bearer [token]"),
        (f"so: {PEM} ok", "so: [private key] ok"),
        (PEM.replace("\n", "\\n"), "[private key]"),
        ("-----BEGIN PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA7x\n" * 3 + "and on", "[private key]\nand on"),
        ("password=hunter2hunter", "password=[secret]"),
        ('{"api_key": "abcDEF123456xyz"}', '{"api_key": "[secret]"}'),
        ("the Password is: x7!kP9qz", "the Password is: x7!kP9qz"),
        ("my password is x7!kP9qz", "my password is [secret]"),
        ("postgres://app:hunter2@host/db", "postgres://app:[secret]@host/db"),
        ("token=sk-aB3xY9kQw2LmN8vTz7Rp", "token=[secret]"),
    ],
)
def test_what_is_found(text: str, expected: str) -> None:
    assert with_labels(text, find) == expected


@pytest.mark.parametrize(
    "text",
    [
        "I forgot my password: please reset it",
        "password: Required, secret: none of your business, token: something-else",
        "password=${PASSWORD} password=$PASSWORD password=******** token=your_token_1 api_key=<key>",
        "bearer responsibilities apply",
        "task-force-for-something-or-other and risk-assessment-in-the-district",
        "see https://example.com/a:b@c and mailto:bob",
        "-----BEGIN CERTIFICATE-----\nMIIEpAIBAAKCAQEA7x\n-----END CERTIFICATE-----",
        "ask-aaaaaaaaaaaaaaaaaaaaaaaaaaaa1",
    ],
)
def test_what_is_none(text: str) -> None:
    assert with_labels(text, find) == text


def test_the_cost_does_not_depend_on_what_stands_there() -> None:
    for piece in ("sk-", "xsk-" + "a" * 30, "password=", "eyJ", "-----BEGIN PRIVATE KEY-----", "bearer a1 ", "a://b:c"):
        with_labels(piece * (200_000 // len(piece)), find)
