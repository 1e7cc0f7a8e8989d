"""Whom the last answer names in its `<next>` tag (behaviours B4, B5, B7)."""

import re
import unicodedata
from collections.abc import Iterable, Sequence

from turnwise.facts.events import USER
from turnwise.facts.selections import Exclusion, Verdict
from turnwise.matching.normalize import with_few_marks
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.fixed import lead_of
from turnwise.selection.next_tag import OPENING
from turnwise.selection.verdicts import abstained, chosen, shortened

# A run is tried once, from where it begins: tried from each place in it, a long one would cost its length squared.
_TRAILING = re.compile(r"(?<![\s.,;:!?…。，！？])[\s.,;:!?…。，！？]+\Z")
_SELF = "self"
FALLBACK_CONFIDENCE = 0.6
_UNKNOWN = "no agent has that name now"


class Conversational:
    """Chooses the agent that the answer hands on to (`actions.next`); the lead when it names nobody usable.

    On a user's message, the last answer counts: the session's head keeps its name (`head.named_next`) for one message, and only
    an agent that its author may hand over to is obeyed. `Self` is the agent that spoke, whatever the agents are called. A name
    also fits without regard to case and trailing punctuation, when it then fits exactly one. Only an agent's own answer counts:
    a tag that a user writes is ignored, and the verdict says so. Without a lead of its own: the lead of the team that asks, or
    the tree's root.
    """

    def __init__(self, lead: str | None = None, *, name: str = "conversational") -> None:
        self.name = name
        self._lead = lead

    @property
    def named_agents(self) -> tuple[str, ...]:
        """The agents that it was given by name."""
        return () if self._lead is None else (self._lead,)

    async def select(self, request: SelectionRequest) -> Verdict:
        verdict = by_name(self.name, request)
        return self._fallback(request, verdict) if verdict.agent is None else verdict

    def _fallback(self, request: SelectionRequest, verdict: Verdict) -> Verdict:
        lead, reason = lead_of(self._lead, request), verdict.reason.removesuffix(".")
        if lead is None:
            return verdict.model_copy(update={"reason": f"{reason}, and the lead may not be chosen."})
        reason += f", so {lead} takes it as the lead."
        seen = {"ignored": verdict.ignored, "passed_over": verdict.passed_over}
        return chosen(self.name, lead, method="lead_fallback", confidence=FALLBACK_CONFIDENCE, reason=reason, **seen)


def by_name(selector: str, request: SelectionRequest) -> Verdict:
    """The agent that the answer names, or that the last answer named for this message; an abstention when it is nobody who
    may be chosen.
    """
    ignored, last = _tags_elsewhere(request), "The last answer"
    named, speaker = request.head.named_next, request.head.active_agent
    if request.occasion == "answer" and request.answer is not None:
        last, named, speaker = "The answer", request.answer.actions.next, request.answer.author
    elif request.occasion != "message" or request.lead is not None:
        speaker = None  # a team begins anew with each message
    if not speaker:
        return abstained(selector, "Nobody has answered yet.", ignored=ignored)
    if not named or speaker == USER:
        return abstained(selector, f"{last} handed on to nobody.", ignored=ignored)
    agent = _find(named, speaker, _nameable(speaker, request))
    if agent is None:
        reason = f"{last} named {shortened(named)!r}, who may not be chosen."
        return abstained(selector, reason, ignored=ignored, passed_over=(_why_not(named, speaker, request),))
    reason = f"{speaker} handed on to {agent}." if agent != speaker else f"{speaker} goes on."
    return chosen(selector, agent, method="conversational", confidence=1.0, reason=reason, ignored=ignored)


def can_name(named: str, names: Iterable[str]) -> bool:
    """Whether the name in a tag is `Self`, or fits one of the names."""
    return comparable_name(named) in {_SELF, *(comparable_name(name) for name in names)}


def matching_name(named: str, names: Iterable[str]) -> str | None:
    """Which of the names is meant: that one, or the only one that fits without regard to case and trailing punctuation."""
    close = []
    for name in names:
        if name == named:
            return name
        if comparable_name(name) == comparable_name(named):
            close.append(name)
    return close[0] if len(close) == 1 else None


def _find(named: str, speaker: str, names: Sequence[str]) -> str | None:
    if comparable_name(named) == _SELF:
        return speaker if speaker in names else None
    return matching_name(named, names)


def _nameable(speaker: str, request: SelectionRequest) -> Sequence[str]:
    """The agents that the speaker may name. Those of an answer are in the request; a message is open to more than it may
    hand over to.
    """
    if request.occasion == "answer":
        return request.eligible
    targets = {speaker, *request.tree.transfer_targets(speaker)} if speaker in request.tree else set[str]()
    return [name for name in request.eligible if name in targets]


def _why_not(named: str, speaker: str, request: SelectionRequest) -> Exclusion:
    agent = _find(named, speaker, [card.name for card in request.tree])
    if agent is None:
        return Exclusion(
            agent=shortened(speaker if comparable_name(named) == _SELF else named), rule="unknown", detail=_UNKNOWN
        )
    excluded = next((each for each in request.excluded if each.agent == agent), None)
    if excluded is not None:
        return excluded
    if speaker in request.tree and agent not in (speaker, *request.tree.transfer_targets(speaker)):
        return Exclusion(agent=agent, rule="forbidden", detail=f"{speaker} may not hand over to it")
    return Exclusion(agent=agent, rule="not_eligible", detail="it may not be chosen here")


def _tags_elsewhere(request: SelectionRequest) -> tuple[str, ...]:
    """The tags that are not obeyed, in words."""
    places = {
        "the user's message: only an agent's own answer can hand on": request.text,
        "a tool's result: only an agent's own answer can hand on": "".join(str(r.result) for r in request.message.tool_results),
        "a quote or code of the answer": request.answer.text if request.answer else "",
    }
    return tuple(f"a <next> tag in {place}" for place, text in places.items() if OPENING in text)


def comparable_name(name: str) -> str:
    """The name as it is compared: compatible letters, case, space and trailing punctuation make no difference."""
    return " ".join(_TRAILING.sub("", unicodedata.normalize("NFKC", with_few_marks(name))).casefold().split())
