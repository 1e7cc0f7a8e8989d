"""What lint says of the agents."""

from typing import Literal, NamedTuple

from pydantic import JsonValue

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


class Finding(NamedTuple):
    """Something to look at. code: stable, `subject.matter`. severity: an error sends messages to the wrong agent or to nobody,
    a warning probably does, a note could do better. agents: whom it is about, the one to change first. evidence: texts or
    patterns that show it. fix: what to do."""

    code: str
    severity: Severity
    agents: tuple[str, ...]
    problem: str
    evidence: tuple[str, ...]
    fix: str

    def data(self) -> dict[str, JsonValue]:
        return {**self._asdict(), "agents": list(self.agents), "evidence": list(self.evidence)}


def ordered(findings: list[Finding]) -> list[Finding]:
    """Errors first; otherwise in the order they were found."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
