"""Clarification: asks the user to choose on a near tie, and reads the choice from the reply (behaviour E5)."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from pydantic import JsonValue

from turnwise.facts.selections import Candidate, Exclusion, Verdict
from turnwise.facts.texts import text_in
from turnwise.facts.tree import AgentTree
from turnwise.matching.language import language_of
from turnwise.matching.normalize import normalize
from turnwise.matching.patterns import PatternIndex
from turnwise.matching.sentences import split_sentences
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.meaning import Meaning
from turnwise.selection.patterns import PLAINLY_NEW
from turnwise.selection.reader import KnownLanguages, unread
from turnwise.selection.resume import conversation_state
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
# Filler words around a choice.
_FILLERS = frozenset({
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

MARGIN = 0.05
"""Agents within this distance of the best are a near tie. Each question costs a turn, so the margin is small."""
EVIDENCE, CHOICES = 0.25, 3
MAX_NOVELTY = 0.5
"""Novelty limit. Above it no question is asked: the message is more likely out of scope than for any agent.

If the ranking stage has a lower limit (its option `nobody`), that limit applies.
"""
QUESTION = "Did you mean:"
BEST = "clarify_skipped"
CLARIFIED, CLARIFIED_BY_MEANING, DECLINED = "clarified", "clarified_by_meaning", "clarify_declined"
RESOLVED = frozenset({CLARIFIED, CLARIFIED_BY_MEANING, DECLINED})
"""Methods of a decision that a clarifying answer led to. The message before the question is then still unanswered."""
DECLINED_RULE = "declined"
"""Exclusion rule for agents that the user has just declined. Later stages may not choose them for this message."""

_CLEAR = 0.6
_ELSEWHERE = 0.5
_SMALLTALK = 0.5


class Choice(NamedTuple):
    """An agent as offered to the user."""

    agent: str
    label: str
    """Display name."""
    description: str
    """Its purpose in one sentence; may be empty."""

    def as_data(self) -> dict[str, JsonValue]:
        return {"agent": self.agent, "label": self.label, "description": self.description}


class Answer(NamedTuple):
    """The user's answer to the choices."""

    kind: Literal["chosen", "declined", "declined_for_more"]
    """`chosen`: one of them. `declined`: none of them. `declined_for_more`: none of them, followed by more text."""
    position: int = 0
    """Index of the chosen one, from 0."""
    how: str = ""
    """How the user named it, for the reason."""


class Clarify:
    """Asks the user to choose on a near tie, and reads the choice from the next message.

    It asks when the last ranking has several agents within `margin` of the best, and the best has at least `evidence`. It does
    not ask when the active agent is one of them, since continuing costs less than a question. It never asks twice in a row: it
    then chooses the best. The default agent, which asks, is never offered.

    The next message is read as the choice if it names a number or an agent, or if its meaning fits one offered agent and no
    other. "Neither" goes to the default agent. The other selectors handle any other message.

    Args:
        meaning: Returns the `Meaning` that reads choices in other words; None = numbers and names only.
        patterns: Patterns that mark a message as a new request.
        default: The default agent; None = the tree's root.
        margin: Maximum distance to the best score.
        evidence: Minimum score of the best.
        choices: Maximum number of agents offered.
        question: First line of the question, also by language, as `facts.texts`.
        only: `answer` = only read choices; `question` = only ask.
        stage: Name of the stage that ranks the agents; None = the last one with a ranking.
        nobody: Novelty limit of that ranking. Above it no question is asked.
        languages: Returns the languages that messages are read in; None = not known.
        name: The stage's name.
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
        question: str | Mapping[str, str] = QUESTION,
        only: Literal["answer", "question"] | None = None,
        stage: str | None = None,
        nobody: float = MAX_NOVELTY,
        languages: Callable[[], KnownLanguages | None] = lambda: None,
        name: str = "clarify",
    ) -> None:
        self.name = name
        self._meaning, self._patterns, self._default = meaning, patterns, default
        self._margin, self._evidence, self._choices, self._question = margin, evidence, choices, question
        self._only, self._stage, self._nobody, self._languages = only, stage, nobody, languages

    async def select(self, request: SelectionRequest) -> Verdict:
        """Reads the user's choice if a question is open; otherwise asks the user to choose on a near tie."""
        if request.occasion != "message":
            return abstained(self.name, "Only a user can be asked.")
        offered = choices_of(request.tree, request.head.offered)
        if self._only != "question" and offered:
            verdict = await self._read_answer(request, offered)
            if verdict.outcome == "chosen" or verdict.passed_over or self._only == "answer":
                return verdict
        if self._only == "answer":
            return abstained(self.name, "The user was not asked to choose.")
        return self._ask(request)

    def _ask(self, request: SelectionRequest) -> Verdict:
        """Returns the question to choose between nearly equal agents; abstains without a near tie.

        If the user has just been asked, it chooses the best one instead of asking again.
        """
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
            reason=f"{self._why_asked(request, tied)}, so the user is asked.",
            candidates=tuple(tied),
            question=question_text(choices, text_in(self._question, _language(request))),
        )

    def _why_asked(self, request: SelectionRequest, tied: Sequence[Candidate]) -> str:
        """Returns the reason of the question: the near tie, or the language that the encoder does not know."""
        known = self._languages()
        language = known.unknown(request.text) if known is not None else None
        if language is None:
            return f"{_scored(tied)} are too close to tell"
        why = unread(language)
        return f"{why[:1].upper()}{why[1:]}"

    async def _read_answer(self, request: SelectionRequest, offered: Sequence[Choice]) -> Verdict:
        """Chooses the agent that the reply names, or excludes the offered ones that it declines. Other replies are compared by
        meaning.
        """
        answer = read_answer(request.text, offered)
        if answer is None:
            return await self._by_meaning(request, offered)
        names = ", ".join(shortened(each.agent) for each in offered)
        if answer.kind == "chosen":
            agent = offered[answer.position].agent
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
        """Chooses by meaning; abstains when the message may as well be a new request."""
        names = [each.agent for each in offered if each.agent in request.eligible]
        no = f"The message names none of {', '.join(names)}, which the user was offered."
        if self._meaning is None or not names or not request.text.strip() or self._is_new(request, names):
            return abstained(self.name, no)
        language = self._meaning().languages.unknown(request.text)
        if language is not None:
            return abstained(self.name, f"{no} Its meaning is not compared: {unread(language)}.")
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
        """Returns whether a pattern clearly marks the message as a request for an agent that was not offered."""
        hits = self._patterns.match(request.text) if self._patterns else []
        others = (hit for hit in hits if hit.label in request.eligible and hit.label not in names)
        return any(hit.confidence > PLAINLY_NEW for hit in others)

    def _default_of(self, request: SelectionRequest) -> str:
        return self._default or request.tree.root


def _language(request: SelectionRequest) -> str | None:
    """Returns the language of the message, or of the latest one before it in a clear language."""
    texts = (request.text, *(each.message for each in reversed(request.head.recent)))
    return next((language for text in texts if (language := language_of(text)) is not None), None)


def choices_of(tree: AgentTree, agents: Iterable[str]) -> tuple[Choice, ...]:
    """Returns the agents as choices, in order. An agent that has left the tree has an empty description."""
    return tuple(
        Choice(name, _label(name), _first_sentence(tree.card(name).description) if name in tree else "") for name in agents
    )


def question_text(choices: Sequence[Choice], lead: str) -> str:
    """Returns the question: the lead, then one numbered line for each choice."""
    lines = (f"{number}. {each.label}{_description_suffix(each.description)}" for number, each in enumerate(choices, 1))
    return "\n".join((lead, *lines))


def read_answer(text: str, choices: Sequence[Choice]) -> Answer | None:
    """Returns the choice that the text names by number or name; None when the text says anything else.

    Recognizes "2", "number two", "the second one please", "the last". A name may be shortened to words or prefixes that only
    one choice has, with polite words around. A longer message is never read as a number: "order 2 kettles" gives None.
    """
    plain = normalize(text[:_READ_CHARACTERS].replace(_KEYCAP, ""), fold=True)
    if _DECLINED.fullmatch(plain):
        return Answer("declined", how="neither of them")
    if _DECLINED_AND_MORE.match(plain):
        return Answer("declined_for_more", how="neither of them, and more")
    words = _TOKEN.findall(plain.replace("'", " ").replace("’", " "))
    index = _by_number(words, len(choices))
    if index is not None:
        return Answer("chosen", index, f"number {index + 1}")
    index = _by_name(words, choices)
    return Answer("chosen", index, "its name") if index is not None else None


def _by_number(words: list[str], count: int) -> int | None:
    """Returns the index of the choice that the words name by number ("the second", "2", "last one"); None for other words."""
    content = [word for word in words if word not in _FILLERS]
    if words and words[-1] == "one" and set(words[:-1]) <= {"option", "number", "choice"}:
        return 0
    if len(content) != 1:
        return None
    number = _number(content[0])
    if number is None:
        return None
    index = count - 1 if number == -1 else number - 1
    return index if 0 <= index < count else None


def _number(word: str) -> int | None:
    """Returns the number that a word stands for, digit, ordinal or word; -1 for "last", None for other words."""
    if word.isdecimal() and len(word) <= 2:
        return int(word) or None
    ordinal = _ORDINAL.fullmatch(word)
    if ordinal:
        return int(ordinal[1]) or None
    return _NUMBERS.get(word) or _ORDINALS.get(word)


def _by_name(words: list[str], choices: Sequence[Choice]) -> int | None:
    """Returns the only choice that fits all the words, filler words aside."""
    named = [set(_TOKEN.findall(normalize(each.label, fold=True))) for each in choices]
    all_words = set[str]().union(*named)
    content = [word for word in words if word in all_words or word not in _FILLERS]
    content, negated = _split_negation(content)
    if not content and not negated:
        return None
    fitting = [
        index
        for index, name in enumerate(named)
        if all(_fits(word, name) for word in content) and not any(_fits(word, name) for word in negated)
    ]
    # A negated word that fits no choice says nothing about the choices.
    if negated and not any(_fits(word, name) for word in negated for name in named):
        return None
    if len(fitting) > 1 and content:
        exact = [index for index in fitting if set(content) == named[index]]
        fitting = exact or fitting
    return fitting[0] if len(fitting) == 1 else None


def _split_negation(words: list[str]) -> tuple[list[str], list[str]]:
    """Splits the words into those before a "not" and the word after it."""
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
    """Formats `password_reset` as `Password reset`; a name with capital letters keeps its case."""
    words = re.sub(r"[_\-./]+", " ", name).strip() or name
    return words[0].upper() + words[1:] if words == words.lower() else words


def _first_sentence(text: str) -> str:
    plain = normalize(text)
    first = split_sentences(_SENTENCE, plain)[0].rstrip(".")
    return first if len(first) <= DESCRIPTION_CHARACTERS else first[: DESCRIPTION_CHARACTERS - 1].rstrip() + "…"


def _description_suffix(description: str) -> str:
    return f" – {description}" if description else ""


def _scored(candidates: Sequence[Candidate]) -> str:
    return " and ".join(f"{each.agent} ({each.score:.2f})" for each in candidates)
