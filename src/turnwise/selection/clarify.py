"""Letting the user choose on a near tie, and reading what they choose (behaviour E5)."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from pydantic import JsonValue

from turnwise.facts.selections import Candidate, Exclusion, Verdict
from turnwise.facts.tree import AgentTree
from turnwise.matching.normalize import normalize
from turnwise.matching.patterns import PatternIndex
from turnwise.matching.sentences import split_sentences
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.active_agent import conversation_state
from turnwise.selection.meaning import Meaning
from turnwise.selection.patterns import PLAINLY_NEW
from turnwise.selection.verdicts import abstained, chosen, ranked, shortened

DESCRIPTION_CHARACTERS = 100
_PREFIX_CHARACTERS = 3
_READ_CHARACTERS = 500

_SENTENCE = re.compile(r"(?<=[.!?])\s")
_TOKEN = re.compile(r"[^\W_]+")
_KEYCAP = "\u20e3"
_ORDINAL = re.compile(r"(\d{1,2})(?:st|nd|rd|th)")
_NUMBERS: dict[str, int] = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
_ORDINALS: dict[str, int] = {
    "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "former": 1, "top": 1, "last": -1, "latter": -1, "bottom": -1,
}  # fmt: skip
# Words that stand around a choice and choose nothing.
_AROUND = frozenset({
    "a", "about", "agent", "and", "answer", "choice", "choose", "d", "department", "desk", "for", "from", "go", "going",
    "guess", "hi", "i", "id", "is", "it", "item", "let", "lets", "like", "ll", "m", "me", "mean", "meant", "my", "ok",
    "okay", "of", "option", "pick", "please", "pls", "rather", "s", "select", "take", "talk", "team", "thank", "thanks",
    "that", "the", "then", "there", "think", "this", "to", "up", "want", "well", "with", "would", "yes", "yeah", "yep",
    "you", "number", "no", "nr", "one", "ones",
})  # fmt: skip
_DECLINED = re.compile(
    r"(?:no,? )?(?:neither|none|nothing|nope|no|not (?:any|either)|something else|(?:any)?other|another|nobody)"
    r"(?: one| thing)?(?: of (?:them|these|those|that|it|the above|both|the two|your (?:choices|options)))?"
    r"(?:,? (?:please|thanks|thank you|really|sorry))*[.!]?"
)
_DECLINED_AND_MORE = re.compile(
    r"(?:no,? )?(?:neither|none)(?: of (?:them|these|those|the above|both|the two))?\s*[,.;:!–—-]\s*\S"
)


class Choice(NamedTuple):
    """An agent as it is offered: its name, how it is shown, and what it is for, in one sentence (may be empty)."""

    agent: str
    label: str
    description: str

    def as_data(self) -> dict[str, JsonValue]:
        return {"agent": self.agent, "label": self.label, "description": self.description}


class Answer(NamedTuple):
    """What the user said to the choices. place: the chosen one, from 0; `declined`: none of them, and nothing else;
    `declined_for_more`: none of them, but what was said goes on.
    """

    kind: Literal["chosen", "declined", "declined_for_more"]
    place: int = 0
    how: str = ""


def choices_of(tree: AgentTree, agents: Iterable[str]) -> tuple[Choice, ...]:
    """The agents as they are offered, in their order; who is no longer in the tree has a name and no more."""
    return tuple(
        Choice(name, _label(name), _first_sentence(tree.card(name).description) if name in tree else "") for name in agents
    )


def question_text(choices: Sequence[Choice], lead: str) -> str:
    """The question: the lead, and a numbered line for each choice."""
    lines = (f"{number}. {each.label}{_after(each.description)}" for number, each in enumerate(choices, 1))
    return "\n".join((lead, *lines))


def read_answer(text: str, choices: Sequence[Choice]) -> Answer | None:
    """Which choice the text names, by its number or name; None when it says something else.

    "2", "number two", "the second one please", "the last"; a name, or words or beginnings of words that only one of the
    choices has, with polite words around. A longer message is never read as a number: "order 2 kettles" is none.
    """
    plain = normalize(text[:_READ_CHARACTERS].replace(_KEYCAP, ""), fold=True)
    if _DECLINED.fullmatch(plain):
        return Answer("declined", how="neither of them")
    if _DECLINED_AND_MORE.match(plain):
        return Answer("declined_for_more", how="neither of them, and more")
    words = _TOKEN.findall(plain.replace("'", " ").replace("’", " "))
    place = _by_number(words, len(choices))
    if place is not None:
        return Answer("chosen", place, f"number {place + 1}")
    place = _by_name(words, choices)
    return Answer("chosen", place, "its name") if place is not None else None


def _by_number(words: list[str], count: int) -> int | None:
    said = [word for word in words if word not in _AROUND]
    if words and words[-1] == "one" and set(words[:-1]) <= {"option", "number", "choice"}:
        return 0
    if len(said) != 1:
        return None
    number = _number(said[0])
    if number is None:
        return None
    place = count - 1 if number == -1 else number - 1
    return place if 0 <= place < count else None


def _number(word: str) -> int | None:
    if word.isdecimal() and len(word) <= 2:
        return int(word) or None
    ordinal = _ORDINAL.fullmatch(word)
    if ordinal:
        return int(ordinal[1]) or None
    return _NUMBERS.get(word) or _ORDINALS.get(word)


def _by_name(words: list[str], choices: Sequence[Choice]) -> int | None:
    """The one choice that all the words fit, after those around it are left out."""
    named = [set(_TOKEN.findall(normalize(each.label, fold=True))) for each in choices]
    every = set[str]().union(*named)
    said = [word for word in words if word in every or word not in _AROUND]
    said, denied = _denied(said)
    if not said and not denied:
        return None
    fitting = [
        place
        for place, name in enumerate(named)
        if all(_fits(word, name) for word in said) and not any(_fits(word, name) for word in denied)
    ]
    # Who denies something that was not offered has said nothing about the choices.
    if denied and not any(_fits(word, name) for word in denied for name in named):
        return None
    if len(fitting) > 1 and said:
        exact = [place for place in fitting if set(said) == named[place]]
        fitting = exact or fitting
    return fitting[0] if len(fitting) == 1 else None


def _denied(words: list[str]) -> tuple[list[str], list[str]]:
    """The words, and those of them that follow a "not"."""
    if "not" not in words:
        return words, []
    at = words.index("not")
    return words[:at], words[at + 1 : at + 2]


def _fits(word: str, name: set[str]) -> bool:
    return any(word == part or _stem(word) == _stem(part) for part in name) or (
        len(word) >= _PREFIX_CHARACTERS and any(part.startswith(word) for part in name)
    )


def _stem(word: str) -> str:
    return word[:-1] if len(word) > _PREFIX_CHARACTERS and word.endswith("s") else word


def _label(name: str) -> str:
    """`password_reset` as `Password reset`; a name that is written as words stays as it is."""
    words = re.sub(r"[_\-./]+", " ", name).strip() or name
    return words[0].upper() + words[1:] if words == words.lower() else words


def _first_sentence(text: str) -> str:
    plain = normalize(text)
    first = split_sentences(_SENTENCE, plain)[0].rstrip(".")
    return first if len(first) <= DESCRIPTION_CHARACTERS else first[: DESCRIPTION_CHARACTERS - 1].rstrip() + "…"


def _after(description: str) -> str:
    return f" – {description}" if description else ""


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
        active = conversation_state(request).active
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
            question=question_text(choices, self._question),
        )

    async def _answered(self, request: SelectionRequest, offered: Sequence[Choice]) -> Verdict:
        answer = read_answer(request.text, offered)
        if answer is None:
            return await self._by_meaning(request, offered)
        names = ", ".join(shortened(each.agent) for each in offered)
        if answer.kind == "chosen":
            agent = offered[answer.place].agent
            if agent not in request.eligible:
                return abstained(self.name, f"The user chose {shortened(agent)}, who may not be chosen now.")
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
