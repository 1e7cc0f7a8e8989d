"""Builds the built-in guardrails that a configuration file names."""

from collections.abc import Callable, Mapping

from turnwise.config.app_file import GUARDRAILS, GuardrailSection
from turnwise.guardrails.injection import InjectionMarks
from turnwise.guardrails.length import Length
from turnwise.guardrails.personal_data import PersonalData
from turnwise.guardrails.secrets import Secrets
from turnwise.guardrails.topics import BannedTopics
from turnwise.ports.encoder import Encoder
from turnwise.ports.guardrail import Guardrail

_CLASSES: Mapping[str, Callable[..., Guardrail]] = {
    "length": Length,
    "personal_data": PersonalData,
    "secrets": Secrets,
    "injection_marks": InjectionMarks,
    "banned_topics": BannedTopics,
}
assert _CLASSES.keys() == GUARDRAILS.keys()


def build_guardrail(item: str | GuardrailSection, encoder: Encoder | None) -> Guardrail:
    """Builds a built-in guardrail from its name, or from its name and options.

    Args:
        encoder: for guardrails that compare meanings; None = the built-in encoder.

    Raises:
        ConfigError: if its options are invalid.
    """
    options = {"use": item} if isinstance(item, str) else item.model_dump(exclude_unset=True)
    made = _CLASSES[options.pop("use")]
    needs = {"encoder": encoder} if made is BannedTopics else {}
    return made(**options, **needs)
