"""Whom the last answer names in its `<next>` tag (behaviours B4, B5)."""

import re
import unicodedata
from collections.abc import Iterable

from turnwise.facts.events import USER
from turnwise.facts.selections import Verdict
from turnwise.matching.normalize import with_few_marks
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.identity import lead_of
from turnwise.selection.next_tag import OPENING
from turnwise.selection.verdicts import abstained, chosen, shown

# A run is tried once, from where it begins: tried from each place in it, a long one would cost its length squared.
_TRAILING = re.compile(r"(?<![\s.,;:!?…。，！？])[\s.,;:!?…。，！？]+\Z")
_SELF = "self"
FALLBACK_CONFIDENCE = 0.6


class Conversational:
    """Chooses the agent that the answer hands on to (`actions.next`); the lead when it names nobody usable.

    `Self` is the agent that spoke, whatever the agents are called. A name also fits without regard to case and trailing
    punctuation, when it then fits exactly one. Only an agent's own answer counts: a tag that a user writes is ignored, and
    the verdict says so. Without a lead of its own: the lead of the team that asks, or the tree's root.
    """

    def __init__(self, lead: str | None = None, *, name: str = "conversational") -> None:
        self.name = name
        self._lead = lead

    @property
    def named_agents(self) -> tuple[str, ...]:
        """The agents that it was given by name."""
        return () if self._lead is None else (self._lead,)

    async def select(self, request: SelectionRequest) -> Verdict:
        ignored = _tags_elsewhere(request)
        named, speaker = None, None
        if request.occasion == "answer" and request.answer is not None:
            named, speaker = request.answer.actions.next, request.answer.author
            if speaker == USER:
                named = None
        if not named:
            reason = "The answer handed on to nobody" if speaker else "Nobody has answered yet"
            return self._fallback(request, reason, ignored)
        agent = _find(named, speaker, request)
        if agent is None:
            return self._fallback(request, f"The answer named {shown(named)!r}, who may not be chosen", ignored)
        reason = f"{speaker} handed on to {agent}." if agent != speaker else f"{speaker} goes on."
        return chosen(self.name, agent, method="conversational", confidence=1.0, reason=reason, ignored=ignored)

    def _fallback(self, request: SelectionRequest, reason: str, ignored: tuple[str, ...]) -> Verdict:
        lead = lead_of(self._lead, request)
        if lead is None:
            return abstained(self.name, f"{reason}, and the lead may not be chosen.", ignored=ignored)
        reason += f", so {lead} takes it as the lead."
        return chosen(self.name, lead, method="lead_fallback", confidence=FALLBACK_CONFIDENCE, reason=reason, ignored=ignored)


def may_name(named: str, names: Iterable[str]) -> bool:
    """Whether the name in a tag is `Self`, or fits one of the names."""
    return tolerant(named) in {_SELF, *(tolerant(name) for name in names)}


def fitting(named: str, names: Iterable[str]) -> str | None:
    """Which of the names is meant: that one, or the only one that fits without regard to case and trailing punctuation."""
    close = []
    for name in names:
        if name == named:
            return name
        if tolerant(name) == tolerant(named):
            close.append(name)
    return close[0] if len(close) == 1 else None


def _find(named: str, speaker: str | None, request: SelectionRequest) -> str | None:
    if tolerant(named) == _SELF:
        return speaker if speaker in request.eligible else None
    return fitting(named, request.eligible)


def _tags_elsewhere(request: SelectionRequest) -> tuple[str, ...]:
    """The tags that are not obeyed, in words."""
    places = {
        "the user's message: only an agent's own answer can hand on": request.text,
        "a tool's result: only an agent's own answer can hand on": "".join(str(r.result) for r in request.message.tool_results),
        "a quote or code of the answer": request.answer.text if request.answer else "",
    }
    return tuple(f"a <next> tag in {place}" for place, text in places.items() if OPENING in text)


def tolerant(name: str) -> str:
    """The name as it is compared: compatible letters, case, space and trailing punctuation make no difference."""
    return " ".join(_TRAILING.sub("", unicodedata.normalize("NFKC", with_few_marks(name))).casefold().split())
