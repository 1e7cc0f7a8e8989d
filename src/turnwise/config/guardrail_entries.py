"""Reads the guardrails of a configuration file: built-in ones by name, the user's own by import path."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pydantic import Field

from turnwise.config.document import kind_of
from turnwise.config.importing import Reference, read_reference
from turnwise.config.places import Document, Where
from turnwise.config.validation import validated
from turnwise.facts.fact import Fact
from turnwise.facts.spelling import did_you_mean
from turnwise.guardrails.injection import InjectionMarks
from turnwise.guardrails.length import Length
from turnwise.guardrails.personal_data import Kind, PersonalData
from turnwise.guardrails.replacing import PLACES, Action
from turnwise.guardrails.secrets import Secrets
from turnwise.guardrails.topics import BannedTopics
from turnwise.ports.encoder import Encoder
from turnwise.ports.guardrail import Guardrail, Place


class BuiltInGuardrail(NamedTuple):
    """A built-in guardrail with its options."""

    use: str
    """Its name."""
    options: Mapping[str, Any]
    """Only those that the file sets."""
    where: Where


def read_guardrails(document: Document) -> tuple[BuiltInGuardrail | Reference, ...]:
    """Reads the list under `guardrails`, in order. Reports and omits invalid entries."""
    value, where = document.data.get("guardrails", []), ("guardrails",)
    if not isinstance(value, list):
        fix = "Write a list of their names, or of import paths."
        document.report(where, f"'guardrails' should be a list, but is {kind_of(value)}.", fix)
        return ()
    found = (_read(document, (*where, index), each) for index, each in enumerate(value))
    return tuple(guardrail for guardrail in found if guardrail is not None)


def _read(document: Document, where: Where, value: Any) -> BuiltInGuardrail | Reference | None:
    given = {"use": value} if isinstance(value, str) and ":" not in value else value
    if not isinstance(given, dict) or "import" in given:
        return read_reference(document, where, given)
    use = given.get("use")
    if not isinstance(use, str) or use not in BUILT_IN:
        problem = f"There is no guardrail {use!r}." if use is not None else "Here a guardrail was expected, with the key 'use'."
        fix = f"{did_you_mean(str(use), BUILT_IN)} Or write an import path, module:attribute."
        document.report((*where, "use"), problem, fix)
        return None
    kind, _ = BUILT_IN[use]
    read = validated(document, where, kind, {key: option for key, option in given.items() if key != "use"})
    return None if read is None else BuiltInGuardrail(use, read.model_dump(exclude_unset=True), where)


def build_guardrail(entry: BuiltInGuardrail, encoder: Encoder | None) -> Guardrail:
    """Builds the guardrail.

    Args:
        encoder: for guardrails that compare meanings; None = the built-in encoder.

    Raises:
        ConfigError: if its options are invalid.
    """
    _, made = BUILT_IN[entry.use]
    needs = {"encoder": encoder} if made is BannedTopics else {}
    return made(**entry.options, **needs)


class GuardrailOptions(Fact):
    name: str = ""


class _Length(GuardrailOptions):
    message: int | None = Field(default=None, ge=1)
    answer: int | None = Field(default=None, ge=1)
    action: Action = "block"


class _Secrets(GuardrailOptions):
    action: Action = "rewrite"
    places: tuple[Place, ...] = PLACES


class _PersonalData(_Secrets):
    kinds: tuple[Kind, ...] = ()


class _InjectionMarks(GuardrailOptions):
    phrases: bool = True
    places: tuple[Place, ...] = PLACES


class _BannedTopics(GuardrailOptions):
    banned: tuple[str, ...] = Field(min_length=1)
    allowed: tuple[str, ...] = ()
    threshold: float = Field(default=0.0, ge=-1.0, le=1.0, allow_inf_nan=False)
    places: tuple[Place, ...] = PLACES
    reason: str = ""


# The guardrail classes define the defaults: only options that the file sets are passed on.
BUILT_IN: Mapping[str, tuple[type[GuardrailOptions], Callable[..., Guardrail]]] = {
    "length": (_Length, Length),
    "personal_data": (_PersonalData, PersonalData),
    "secrets": (_Secrets, Secrets),
    "injection_marks": (_InjectionMarks, InjectionMarks),
    "banned_topics": (_BannedTopics, BannedTopics),
}
