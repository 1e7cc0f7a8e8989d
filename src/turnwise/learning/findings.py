"""The result type of lint."""

from typing import Literal, NamedTuple

from pydantic import JsonValue

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


class Finding(NamedTuple):
    """A problem that lint found in agents' cards."""

    code: str
    """Stable code, `subject.matter`."""
    severity: Severity
    """An error sends messages to the wrong agent or to none, a warning probably does, a note could be improved."""
    agents: tuple[str, ...]
    """The agents concerned; the first one is the one to change first."""
    problem: str
    evidence: tuple[str, ...]
    """Texts or patterns that show the problem."""
    fix: str
    """Recommended change."""

    def data(self) -> dict[str, JsonValue]:
        return {**self._asdict(), "agents": list(self.agents), "evidence": list(self.evidence)}


def ordered(findings: list[Finding]) -> list[Finding]:
    """Returns the findings, errors first, otherwise in their order."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
