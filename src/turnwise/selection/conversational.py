"""Selects the agent named by the last answer's `<next>` tag, and parses the tag (behaviours B4 to B7).

A tag is `<next>`, a name of at most 256 characters, `</next>`. It does not count inside fenced code, inline code, block
quotes (lines that begin with `>`) and double quotes. Only the text before a tag decides whether it counts, so a stream
needs look-ahead for the tag itself only. Unclosed inline code and quotes extend to the end of their paragraph, an
unclosed fence to the end of the text. A quote mark or backtick directly after a letter or digit opens nothing, so
apostrophes and inch marks are harmless.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence

from turnwise.facts.events import USER
from turnwise.facts.selections import Exclusion, Verdict
from turnwise.matching.normalize import with_few_marks
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.fixed import lead_of
from turnwise.selection.verdicts import abstained, chosen, shortened

# The lookbehind makes the match start only at the beginning of a run; otherwise a long run would take quadratic time.
_TRAILING = re.compile(r"(?<![\s.,;:!?…。，！？])[\s.,;:!?…。，！？]+\Z")
_SELF = "self"
FALLBACK_CONFIDENCE = 0.6
_UNKNOWN = "no agent has that name now"

OPENING = "<next>"
CLOSING = "</next>"
NAME_CHARACTERS = 256

_TAG = re.compile(f"{OPENING}(.{{0,{NAME_CHARACTERS}}}?){CLOSING}", re.DOTALL)
_TAG_CHARACTERS = len(OPENING) + NAME_CHARACTERS + len(CLOSING)
_CLOSERS = {'"': '"', "“": "”", "„": "“”", "«": "»", "»": "«", "「": "」", "『": "』", "＂": "＂"}
_TOKEN = re.compile(r"\n|`+|~+|>|[\"“”„«»「」『』＂]|[^\n`~>\"“”„«»「」『』＂]+")
_LINE_START = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)*")
_LINE_START_CHARACTERS = 80
_FENCE = 3


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


def take_next(text: str) -> tuple[str, str | None]:
    """Removes the tags from a text.

    Returns:
        The text without its tags, and the name in the first tag. The name is the part after the last `@`, stripped; an
        empty tag gives the empty name. Without a valid tag: the unchanged text and None.
    """
    tags = NextTagFilter()
    clean = tags.feed(text) + tags.finish()
    return clean, tags.name


class NextTagFilter:
    """Removes tags from streamed text, wherever the chunks are cut.

    It buffers only text that may still become a tag. The joined results of `feed` and `finish` equal the text that
    `take_next` returns for the whole.
    """

    def __init__(self) -> None:
        self._held = ""
        self._place = _Place()
        self.name: str | None = None
        """The name in the first tag; None before the first tag."""

    def feed(self, piece: str) -> str:
        """Adds a chunk and returns the text that is safe to show; may be empty."""
        return self._filter(self._held + piece, last=False)

    def finish(self) -> str:
        """Returns the buffered text at the end of the stream."""
        return self._filter(self._held, last=True)

    def _filter(self, text: str, *, last: bool) -> str:
        """Returns the text without tags, and holds back an end that may become a tag, unless it is the last text."""
        visible: list[str] = []
        at, self._held = 0, ""
        while at < len(text):
            if text[at] == "<" and not self._place.is_quoted():
                tag = _TAG.match(text, at)
                if tag:
                    self._set_name(tag[1])
                    at = tag.end()
                    continue
                if not last and _may_become_tag(text, at):
                    self._held = text[at:]
                    break
            stop = text.find("<", at + 1)
            stop = len(text) if stop < 0 else stop
            self._place.read(text[at:stop])
            visible.append(text[at:stop])
            at = stop
        return "".join(visible)

    def _set_name(self, inside: str) -> None:
        if self.name is None:
            self.name = inside.rpartition("@")[2].strip()
        self._place.read(CLOSING[0])


def _may_become_tag(text: str, at: int) -> bool:
    return len(text) - at < _TAG_CHARACTERS and OPENING.startswith(text[at : at + len(OPENING)])


class _Place:
    """Markup state at the reading position. A run of backticks or tildes counts once the next character is known."""

    def __init__(self) -> None:
        self._fence = ""  # what closes the open fence
        self._fence_line = False  # still on the line that opened it
        self._code = 0  # length of the run that closes the inline code
        self._quote = ""  # characters that close the quote
        self._previous = ""
        self._line: str | None = ""  # this line so far, as long as it may be all space and list marks
        self._quoted_line = False
        self._closing = False  # this line has only a closing fence yet
        self._run = ""
        self._run_began_line = False

    def is_quoted(self) -> bool:
        """True if a tag that begins here does not count."""
        self._settle()
        return bool(self._fence or self._code or self._quote or self._quoted_line)

    def read(self, text: str) -> None:
        """Advances over text, and tracks code blocks, inline code and quotations, in which tags do not count."""
        for token in _TOKEN.findall(text):
            first = token[0]
            if first in "`~":
                self._read_run(token)
                continue
            self._settle()
            if first == "\n":
                self._end_line()
            elif first == ">" and self._starts_line() and not self._fence:
                self._quoted_line, self._line = True, None
            elif first in _CLOSERS or first in self._quote:
                self._read_quote_mark(first)
            else:
                self._read_words(token)
            self._previous = token[-1]

    def _starts_line(self) -> bool:
        return self._line is not None and _LINE_START.fullmatch(self._line) is not None

    def _read_words(self, token: str) -> None:
        if self._line is not None:
            self._line = self._line + token if len(self._line) + len(token) <= _LINE_START_CHARACTERS else None
        if not token.isspace():
            self._closing = False

    def _read_quote_mark(self, mark: str) -> None:
        """Opens or closes a quotation, unless the place is in code or in a quoted line."""
        self._line, self._closing = None, False
        if self._fence or self._code or self._quoted_line:
            return
        if self._quote:
            self._quote = "" if mark in self._quote else self._quote
        elif mark != '"' or not self._previous.isalnum():
            self._quote = _CLOSERS[mark]

    def _read_run(self, token: str) -> None:
        if self._run and self._run[0] != token[0]:
            self._settle()
        if not self._run:
            self._run_began_line = self._starts_line()
        self._run += token

    def _settle(self) -> None:
        """Ends a run of backticks or tildes, now that its length is known."""
        run, self._run = self._run, ""
        if not run:
            return
        began_line, self._line = self._run_began_line, None
        if self._fence:
            self._settle_in_fence(run, began_line)
        elif not self._quoted_line:
            self._settle_outside(run, began_line)
        self._previous = run[-1]

    def _settle_in_fence(self, run: str, began_line: bool) -> None:
        """Reads a run inside a code block: it may close it, or show that it was inline code."""
        if self._fence_line and run[0] == "`" == self._fence[0]:
            # No fence has backticks on its first line: it was inline code, and this may close it.
            self._code = 0 if len(run) == len(self._fence) else len(self._fence)
            self._fence = ""
        else:
            self._closing = began_line and run.startswith(self._fence) and not self._fence_line

    def _settle_outside(self, run: str, began_line: bool) -> None:
        """Reads a run outside of code blocks: it opens or closes inline code, or opens a code block."""
        if self._code and run[0] == "`" and len(run) == self._code:
            self._code = 0
        elif began_line and len(run) >= _FENCE:
            self._fence, self._fence_line = run, True
            self._code, self._quote = 0, ""
        elif run[0] == "`" and not self._code and not self._quote and not self._previous.isalnum():
            self._code = len(run)

    def _end_line(self) -> None:
        """Ends a line: a closing fence ends the code block, and a blank line ends inline code and quotations."""
        if self._fence and self._closing:
            self._fence = ""
        if self._line is not None and not self._line.strip():
            self._code, self._quote = 0, ""
        self._fence_line = self._closing = self._quoted_line = False
        self._line = ""
