"""Letting the user choose on a near tie, and reading what they choose (behaviour E5)."""

from collections.abc import Callable, Sequence
from typing import Literal

from turnwise.facts.selections import Candidate, Exclusion, Verdict
from turnwise.matching.patterns import PatternIndex
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.choices import Choice, asked, choices_of, read_answer
from turnwise.selection.meaning import Meaning
from turnwise.selection.patterns import PLAINLY_NEW
from turnwise.selection.ranking import ranked
from turnwise.selection.standing import standing
from turnwise.selection.verdicts import abstained, chosen, shown

MARGIN = 0.05
"""So near to the best, another agent may as well be meant. Every question costs a turn: more would be asked than is won."""
EVIDENCE, CHOICES = 0.25, 3
NOBODY = 0.5
"""With a novelty above this the user is not asked: what is likelier nobody's than anybody's is not worth a turn. Who turns
messages away for less (the `nobody` of a stage) is not asked for those either."""
QUESTION = "Did you mean:"
BEST = "clarify_skipped"
CLARIFIED, CLARIFIED_BY_MEANING, DECLINED = "clarified", "clarified_by_meaning", "clarify_declined"
RESOLVED = frozenset({CLARIFIED, CLARIFIED_BY_MEANING, DECLINED})
"""The methods by which an answer to a clarifying question is taken: what was asked before it is still to be answered."""
DECLINED_RULE = "declined"
"""Agents that the user has just turned down: nobody after this stage may choose them for this message."""

_CLEAR = 0.6
_ELSEWHERE = 0.5
_SMALLTALK = 0.5


class Clarify:
    """Asks the user to choose when the selectors before it could not tell; reads the choice from the next message.

    It asks when the best candidates of the last of them that ranked any are within `margin` of each other, and the best has
    at least `evidence`: at most `choices` of them, best first. It does not ask when one of them has the conversation (going
    on with it costs less than a question). It never asks twice in a row: then it chooses the best. `default`, who asks, is
    not offered.

    The message after a question is taken as the choice when it names a number or an agent, or means one of those offered and
    nobody else; "neither" goes to the default agent. Anything else is left to the other selectors. only: `answer` reads
    choices and never asks, `question` asks only. stage: whose ranking counts, by its name in the policy; None = the last's.
    nobody: with more novelty in that ranking it does not ask.
    """

    def __init__(
        self,
        *,
        meaning: Callable[[], Meaning] | None = None,
        patterns: PatternIndex | None = None,
        default: str | None = None,
        margin: float = MARGIN,
        evidence: float = EVIDENCE,
        choices: int = CHOICES,
        question: str = QUESTION,
        only: Literal["answer", "question"] | None = None,
        stage: str | None = None,
        nobody: float = NOBODY,
        name: str = "clarify",
    ) -> None:
        self.name = name
        self._meaning, self._patterns, self._default = meaning, patterns, default
        self._margin, self._evidence, self._choices, self._question = margin, evidence, choices, question
        self._only, self._stage, self._nobody = only, stage, nobody

    async def select(self, request: SelectionRequest) -> Verdict:
        if request.occasion != "message":
            return abstained(self.name, "Only a user can be asked.")
        offered = choices_of(request.tree, request.head.offered)
        if self._only != "question" and offered:
            verdict = await self._answered(request, offered)
            if verdict.outcome == "chosen" or verdict.passed_over or self._only == "answer":
                return verdict
        if self._only == "answer":
            return abstained(self.name, "The user was not asked to choose.")
        return self._ask(request)

    def _ask(self, request: SelectionRequest) -> Verdict:
        best_first = ranked(request, self._stage, self._nobody)
        if not best_first:
            return abstained(self.name, "No agents were ranked before, so there is nothing to choose from.")
        if best_first[0].score < self._evidence:
            return abstained(self.name, f"Nobody fits well enough to be offered: {_scored(best_first[:1])}.")
        tied = [each for each in best_first if each.score >= best_first[0].score - self._margin]
        active = standing(request).active
        if active != self._default_of(request) and any(each.agent == active for each in tied):
            return abstained(self.name, f"{active} has the conversation and fits as well as any, so nobody is asked.")
        tied = [each for each in tied if each.agent != self._default_of(request)][: self._choices]
        if len(tied) < 2:
            return abstained(self.name, "There is no near tie to let the user choose from.")
        if request.head.offered:
            reason = f"{_scored(tied)} are too close to tell, but the user has just been asked; {tied[0].agent} fits best."
            best = tied[0]
            return chosen(self.name, best.agent, method=BEST, confidence=best.score, reason=reason, candidates=tuple(tied))
        choices = choices_of(request.tree, (each.agent for each in tied))
        return Verdict(
            selector=self.name,
            outcome="clarify",
            confidence=tied[0].score,
            reason=f"{_scored(tied)} are too close to tell, so the user is asked.",
            candidates=tuple(tied),
            question=asked(choices, self._question),
        )

    async def _answered(self, request: SelectionRequest, offered: Sequence[Choice]) -> Verdict:
        answer = read_answer(request.text, offered)
        if answer is None:
            return await self._by_meaning(request, offered)
        names = ", ".join(shown(each.agent) for each in offered)
        if answer.kind == "chosen":
            agent = offered[answer.place].agent
            if agent not in request.eligible:
                return abstained(self.name, f"The user chose {shown(agent)}, who may not be chosen now.")
            reason = f"The user was offered {names}, and chose {agent} by {answer.how}."
            return chosen(self.name, agent, method=CLARIFIED, confidence=1.0, reason=reason)
        declined = tuple(Exclusion(agent=each.agent, rule=DECLINED_RULE, detail="the user did not mean it") for each in offered)
        reason = f"The user was offered {names}, and meant none of them"
        default = self._default_of(request)
        if answer.kind == "declined" and default in request.eligible:
            reason += f", so {default} takes it."
            return chosen(self.name, default, method=DECLINED, confidence=0.6, reason=reason, passed_over=declined)
        return abstained(self.name, reason + ".", passed_over=declined)

    async def _by_meaning(self, request: SelectionRequest, offered: Sequence[Choice]) -> Verdict:
        """The choice in other words; an abstention when it is as well something new."""
        names = [each.agent for each in offered if each.agent in request.eligible]
        no = f"The message names none of {', '.join(names)}, which the user was offered."
        if self._meaning is None or not names or not request.text.strip() or self._is_new(request, names):
            return abstained(self.name, no)
        before = request.head.recent[-1].message if request.head.recent else ""
        alone, joined = await self._meaning().read([request.text, f"{before}\n{request.text}".strip()])
        match = alone.match.among(request.eligible)
        if not match.labels or alone.smalltalk > _SMALLTALK:
            return abstained(self.name, no)
        best, score = match.ranked(1)[0]
        if best not in names:
            if score >= _ELSEWHERE and alone.match.novelty < _ELSEWHERE:
                return abstained(self.name, f"{no} It rather means {best} ({score:.2f}).")
            match = joined.match.among(request.eligible)
            if match.ranked(1)[0][0] not in names:
                return abstained(self.name, no)
        ranked = match.among(names).ranked(len(names))
        candidates = tuple(Candidate(agent=agent, score=score, evidence="of those offered") for agent, score in ranked)
        agent, score = ranked[0]
        if score < _CLEAR:
            return abstained(self.name, f"{no} It fits {agent} best, but only by {score:.2f}.", candidates=candidates)
        reason = f"The user was offered {', '.join(names)}; of these the message means {agent}."
        return chosen(self.name, agent, method=CLARIFIED_BY_MEANING, confidence=score, reason=reason, candidates=candidates)

    def _is_new(self, request: SelectionRequest, names: Sequence[str]) -> bool:
        """Whether a pattern marks the message plainly as somebody else's."""
        hits = self._patterns.match(request.text) if self._patterns else []
        others = (hit for hit in hits if hit.label in request.eligible and hit.label not in names)
        return any(hit.confidence > PLAINLY_NEW for hit in others)

    def _default_of(self, request: SelectionRequest) -> str:
        return self._default or request.tree.root


def _scored(candidates: Sequence[Candidate]) -> str:
    return " and ".join(f"{each.agent} ({each.score:.2f})" for each in candidates)
