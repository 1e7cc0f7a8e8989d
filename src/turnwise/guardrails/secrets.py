"""Secrets: keys of known providers, private keys, tokens, passwords."""

from collections.abc import Collection

from turnwise.guardrails.replacing import PLACES, Action, Replacing
from turnwise.guardrails.secret_rules import REACH, find
from turnwise.ports.guardrail import Place


class Secrets(Replacing):
    """Puts `[key]`, `[private key]`, `[token]` and `[secret]` in place of secrets, or blocks what holds them.

    Keys and tokens count by the shapes that providers gave them; what is assigned to a password, a secret, a token or a key
    counts if it looks random.
    """

    def __init__(self, *, action: Action = "rewrite", places: Collection[Place] = PLACES, name: str = "secrets") -> None:
        super().__init__(name, "secrets", find, reach=REACH, action=action, places=places)
