"""Guardrails: checks that allow, rewrite or block messages, tool calls and answers."""

from typing import TYPE_CHECKING

from turnwise.facts.face import face

if TYPE_CHECKING:
    from turnwise.guardrails.injection import InjectionMarks as InjectionMarks
    from turnwise.guardrails.length import Length as Length
    from turnwise.guardrails.personal_data import PersonalData as PersonalData
    from turnwise.guardrails.secrets import Secrets as Secrets
    from turnwise.guardrails.topics import BannedTopics as BannedTopics
    from turnwise.ports.guardrail import ALLOW as ALLOW, Guardrail as Guardrail, GuardrailVerdict as GuardrailVerdict

__all__, __getattr__ = face(
    __name__,
    {
        "turnwise.guardrails.injection": "InjectionMarks",
        "turnwise.guardrails.length": "Length",
        "turnwise.guardrails.personal_data": "PersonalData",
        "turnwise.guardrails.secrets": "Secrets",
        "turnwise.guardrails.topics": "BannedTopics",
        "turnwise.ports.guardrail": "ALLOW Guardrail GuardrailVerdict",
    },
)
