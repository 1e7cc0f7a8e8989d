"""Selects the agent named by the last answer's `<next>` tag (behaviours B4, B5, B7)."""

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

# The lookbehind makes the match start only at the beginning of a run; otherwise a long run would take quadratic time.
_TRAILING = re.compile(r"(?<![\s.,;:!?…。，！？])[\s.,;:!?…。，！？]+\Z")
_SELF = "self"
FALLBACK_CONFIDENCE = 0.6
_UNKNOWN = "no agent has that name now"


class Conversational:
    """Chooses the agent that the answer hands over to (`actions.next`), else the lead.

    For a user's message, the last answer counts: the session's head keeps its tag (`head.named_next`) for one message. The
    named agent must be one that the answer's author may hand over to. `Self` always means the author. Names are compared
    exactly first, then without case and trailing punctuation if that fits exactly one agent. Only tags in an agent's own
    answer count; the verdict lists tags in users' messages as ignored.

    Args:
        lead: The fallback; None = the asking team's lead, or the tree's root.
        name: The stage's name.
    """

    def __init__(self, lead: str | None = None, *, name: str = "conversational") -> None:
        self.name = name
        self._lead = lead

    @property
    def named_agents(self) -> tuple[str, ...]:
        """Agents named in the configuration."""
        return () if self._lead is None else (self._lead,)

    async def select(self, request: SelectionRequest) -> Verdict:
        verdict = by_name(self.name, request)
        return self._fallback(request, verdict) if verdict.agent is None else verdict

    def _fallback(self, request: SelectionRequest, verdict: Verdict) -> Verdict:
        """Chooses the lead when the tag names no agent that may be chosen; returns the verdict itself without a lead."""
        lead, reason = lead_of(self._lead, request), verdict.reason.removesuffix(".")
        if lead is None:
            return verdict.replace(reason=f"{reason}, and the lead may not be chosen.")
        reason += f", so {lead} takes it as the lead."
        seen = {"ignored": verdict.ignored, "passed_over": verdict.passed_over}
        return chosen(self.name, lead, method="lead_fallback", confidence=FALLBACK_CONFIDENCE, reason=reason, **seen)


def by_name(selector: str, request: SelectionRequest) -> Verdict:
    """Chooses the agent named by the answer, or by the last answer before this message.

    Abstains when no agent is named or the named agent may not be chosen.
    """
    ignored, last = _tags_elsewhere(request), "The last answer"
    named, speaker = request.head.named_next, request.head.active_agent
    if request.occasion == "answer" and request.answer is not None:
        last, named, speaker = "The answer", request.answer.actions.next, request.answer.author
    elif request.occasion != "message" or request.lead is not None:
        speaker = None  # a team starts over with each message
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
    """Returns whether the name in a tag is `Self` or matches one of the names."""
    return comparable_name(named) in {_SELF, *(comparable_name(name) for name in names)}


def matching_name(named: str, names: Iterable[str]) -> str | None:
    """Returns the name that `named` means: the exact match, else the only match without case and trailing punctuation."""
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
    """Returns the agents that the speaker may name.

    For an answer, the request is already limited to them. For a message, eligible agents include others.
    """
    if request.occasion == "answer":
        return request.eligible
    targets = {speaker, *request.tree.transfer_targets(speaker)} if speaker in request.tree else set[str]()
    return [name for name in request.eligible if name in targets]


def _why_not(named: str, speaker: str, request: SelectionRequest) -> Exclusion:
    """Returns why the agent that a tag names cannot be chosen."""
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
    """Describes the tags that were ignored."""
    places = {
        "the user's message: only an agent's own answer can hand on": request.text,
        "a tool's result: only an agent's own answer can hand on": "".join(str(r.result) for r in request.message.tool_results),
        "a quote or code of the answer": request.answer.text if request.answer else "",
    }
    return tuple(f"a <next> tag in {place}" for place, text in places.items() if OPENING in text)


def comparable_name(name: str) -> str:
    """Normalizes a name for comparison: compatible letters, case, space and trailing punctuation make no difference."""
    return " ".join(_TRAILING.sub("", unicodedata.normalize("NFKC", with_few_marks(name))).casefold().split())
