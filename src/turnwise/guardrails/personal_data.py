"""Personal data: e-mail addresses, phone numbers, payment cards, bank accounts, social security numbers."""

from collections.abc import Collection
from functools import partial

from turnwise.facts.errors import ConfigError
from turnwise.guardrails.personal_rules import RULES, Kind, find, reach_of
from turnwise.guardrails.replacing import PLACES, Action, Replacing
from turnwise.ports.guardrail import Place

KINDS: tuple[Kind, ...] = tuple(RULES)


class PersonalData(Replacing):
    """Puts `[e-mail]`, `[phone]`, `[card]`, `[iban]` and `[ssn]` in place of personal data, or blocks what holds it.

    kinds: what to look for. Cards and accounts count by their checksums, phone numbers by how they are written, or by what
    stands before them. ConfigError for a kind that there is not.
    """

    def __init__(
        self,
        *,
        kinds: Collection[Kind] = KINDS,
        action: Action = "rewrite",
        places: Collection[Place] = PLACES,
        name: str = "personal-data",
    ) -> None:
        for kind in kinds:
            if kind not in RULES:
                raise ConfigError(f"The guardrail {name!r} does not know {kind!r}.", fix=f"Kinds are {', '.join(KINDS)}.")
        wanted = frozenset(kinds)
        super().__init__(
            name, "personal data", partial(find, kinds=wanted), reach=reach_of(wanted), action=action, places=places
        )
