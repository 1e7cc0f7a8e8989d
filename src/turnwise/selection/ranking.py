"""What the stages before said of who fits, for a stage that decides between them."""

from turnwise.facts.selections import Candidate
from turnwise.ports.selector import SelectionRequest


def ranked(request: SelectionRequest, stage: str | None, nobody: float) -> list[Candidate]:
    """What the last stage that ranked agents, or the one of that name, said of those who may be chosen, best first.

    Empty when it found that rather nobody should take the message.
    """
    for verdict in reversed([each for each in request.verdicts if stage in (None, each.selector)]):
        found = [each for each in verdict.candidates if each.agent in request.eligible]
        if found and (verdict.novelty or 0.0) > nobody:
            return []
        if found:
            return sorted(found, key=lambda each: -each.score)
    return []
