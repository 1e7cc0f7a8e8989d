"""What is kept or left out as a whole: what somebody said, with the calls in it and all their results."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from turnwise.facts.content import (
    ArtifactPart,
    BlobPart,
    Content,
    DataPart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from turnwise.facts.events import USER, Event
from turnwise.transcript.fences import attributed, escape_fences, escape_fences_in, runtime_note
from turnwise.transcript.sizes import as_text, tokens_of_parts
from turnwise.transcript.view import View
from turnwise.transcript.visible import LoggedCall, VisibleLog, question_of

CALL_CHARACTERS, RESULT_CHARACTERS = 200, 500
"""How much is shown of another agent's call, and of what it got."""
OWN_CHARACTERS = 4_000
"""How much of either when the reader's own are told in words."""
FILE_CHARACTERS = 50_000
"""How much is shown of a file of text."""
STILL_TO_COME = "The result is still to come."
NO_RESULT = "There is no result."
LEAVE = "leave"
"""What the note about a question for leave is called."""
YOU_ASKED = "A person was asked whether you may call {}."
OTHER_ASKED = "A person was asked whether {} may call a tool."

_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")
_TOOL_CHARACTERS = 64


class Group(NamedTuple):
    """One step of the conversation: what the reader said in it, then what it heard; either may be empty.

    Its n-th result, which all stand first in what it heard, is that of its n-th call. tokens: the estimate; events: of how
    many it is made.
    """

    said: tuple[Part, ...] = ()
    heard: tuple[Part, ...] = ()
    tokens: int = 0
    events: int = 1

    @property
    def is_empty(self) -> bool:
        return not self.said and not self.heard


def group_of(said: Iterable[Part], heard: Iterable[Part], events: int = 1) -> Group:
    """The group of these parts, with its estimate."""
    said, heard = tuple(said), tuple(heard)
    return Group(said, heard, tokens_of_parts((*said, *heard)), events)


def group_at(place: int, reading: VisibleLog, view: View) -> Group:
    """What the event at that place, with what belongs to it, is to the reader; empty when that is nothing."""
    event, calls = reading.events[place], reading.calls.get(place, ())
    if event.author == USER:
        return group_of((), _from_user(event))
    if event.author != view.agent:
        return group_of((), _from_other(event, calls, view))
    aside = [reading.events[other] for other in reading.aside.get(place, ())]
    questions = [question for each in (event, *aside) if (question := question_of(each))]
    asked = [TextPart(text=runtime_note(LEAVE, YOU_ASKED.format(_tool(str(part.arguments["tool"]))))) for part in questions]
    results: Sequence[Part]
    if view.calls_as_text:
        said, results = _own(event, (), aside, sealed=False), [_told(event, call) for call in calls]
    else:
        said, results = _own(event, calls, aside, sealed=_is_run(event, view)), [_result(call) for call in calls]
    events = {place, *(call.ended for call in calls), *reading.aside.get(place, ())}
    return group_of(said, [*results, *asked], len(events))


def opening_group(content: Content, by: str | None) -> list[Part]:
    """What opens a run, when the log does not hold it: the user's, or another agent's who asks the reader; `by` is its name,
    empty if it is not known, None for the user.
    """
    if by is None:
        return _heard_from_user(content)
    return _heard_from_agent(by, content, to_reader=True)


def _is_run(event: Event, view: View) -> bool:
    return event.invocation_id == view.invocation_id and event.branch == view.branch


# --- the reader's own


def _own(event: Event, calls: Sequence[LoggedCall], aside: Sequence[Event], *, sealed: bool) -> list[Part]:
    """Its words, then its calls; thinking stays where it was, and only in the run that goes on: providers want it back
    there, unchanged, and what they sealed together with it.
    """
    shown = {id(call.part) for call in calls}
    words: list[Part] = []
    acts: list[Part] = []
    for part in _said(event):
        if isinstance(part, ToolCallPart):
            acts += [_call(part, sealed=sealed)] if id(part) in shown else []
        elif isinstance(part, ThinkingPart):
            (acts or words).extend([part] if sealed else [])
        else:
            words += _words(part, sealed=sealed)
    for other in aside:
        for part in _said(other):
            words += _words(part, sealed=sealed)
    said = [*words, *acts]
    while said and isinstance(said[-1], ThinkingPart):
        said.pop()
    return said


def _said(event: Event) -> Sequence[Part]:
    """What its author said in it. A question for leave is the loop's, in whosever name it is asked."""
    return () if event.content is None or question_of(event) else event.content.parts


def _words(part: Part, *, sealed: bool) -> list[Part]:
    if isinstance(part, TextPart):
        kept = part if sealed or part.seal is None else TextPart(text=part.text)
        return [kept] if part.text.strip() else []
    text = _named(part)
    return [TextPart(text=text)] if text.strip() else []


def _call(part: ToolCallPart, *, sealed: bool) -> ToolCallPart:
    changed: dict[str, object] = {} if sealed or part.seal is None else {"seal": None}
    tool = _tool(part.tool)
    changed |= {} if tool == part.tool else {"tool": tool}
    return part.model_copy(update=changed) if changed else part


def _result(call: LoggedCall) -> ToolResultPart:
    tool, found = _tool(call.part.tool), call.result
    if found is None:
        told = STILL_TO_COME if call.awaited else NO_RESULT
        return ToolResultPart(call_id=call.part.call_id, tool=tool, result=told, failed=not call.awaited)
    value = escape_fences_in(found.result)
    if value is found.result and tool == found.tool:
        return found
    return ToolResultPart(call_id=found.call_id, tool=tool, result=value, failed=found.failed)


def _told(event: Event, call: LoggedCall) -> TextPart:
    """A call of the reader's and its result, in words."""
    return TextPart(text=attributed(event.author, _called(call, OWN_CHARACTERS, OWN_CHARACTERS), calls=call.part.tool))


def _tool(name: str) -> str:
    """A tool's name as providers take it; models call tools that do not exist by any name."""
    return _NO_NAME.sub("_", name)[:_TOOL_CHARACTERS] or "tool"


# --- what comes from others


def _from_user(event: Event) -> list[Part]:
    said = event.actions.brief or event.content
    return _heard_from_user(said) if said else []


def _heard_from_user(content: Content) -> list[Part]:
    heard: list[Part] = []
    for part in content.parts:
        if isinstance(part, BlobPart):
            heard.append(TextPart(text=escape_fences(_written(part))) if _is_text(part) else part)
        elif isinstance(part, TextPart):
            text = escape_fences(part.text)
            if text.strip():
                heard.append(part if text == part.text and part.seal is None else TextPart(text=text))
        elif text := _named(part):
            heard.append(TextPart(text=escape_fences(text)))
    return heard


def _from_other(event: Event, calls: Sequence[LoggedCall], view: View) -> list[Part]:
    heard: list[Part] = []
    if question_of(event):
        heard.append(TextPart(text=runtime_note(LEAVE, OTHER_ASKED.format(event.author))))
    elif event.content is not None:
        heard += _heard_from_agent(event.author, event.content, to_reader=False)
        heard += [TextPart(text=attributed(event.author, _called(call), calls=call.part.tool)) for call in calls]
    if event.actions.brief is not None and event.actions.transfer_to == view.agent:
        heard += _heard_from_agent(event.author, event.actions.brief, to_reader=True)
    return heard


def _heard_from_agent(agent: str, content: Content, *, to_reader: bool) -> list[Part]:
    """Its words in one mark; files it hands to the reader stay files, but for those of text, which are words."""
    texts: list[str] = []
    files: list[Part] = []
    for part in content.parts:
        if to_reader and isinstance(part, BlobPart) and _is_text(part):
            texts.append(_written(part))
        elif to_reader and isinstance(part, BlobPart):
            files.append(part)
        elif text := part.text if isinstance(part, TextPart) else _named(part):
            texts += [text] if text.strip() else []
    if not texts and not files:
        return []
    return [TextPart(text=attributed(agent, "\n".join(texts), to_reader=to_reader)), *files]


def _called(call: LoggedCall, most_given: int = CALL_CHARACTERS, most_got: int = RESULT_CHARACTERS) -> str:
    given = as_text(call.part.arguments) if call.part.raw is None else call.part.raw
    shown = _clipped(given, most_given)
    if call.result is None:
        return shown
    failed = "failed: " if call.result.failed else ""
    return f"{shown} → {failed}{_clipped(as_text(call.result.result), most_got)}"


def _clipped(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"


def _is_text(file: BlobPart) -> bool:
    return file.mime_type.strip().casefold().startswith("text/")


def _written(file: BlobPart) -> str:
    """A file of text as words: a provider would show it as such anyway, with whatever marks are in it."""
    text = file.data.decode("utf-8", "replace")
    missing = len(text) - FILE_CHARACTERS
    left_out = f"[… {missing:,} characters are left out here …]" if missing > 0 else ""
    return f"{_named(file)}\n{text[:FILE_CHARACTERS]}{left_out}"


def _named(part: Part) -> str:
    """What stands in a text for a part that is none; empty for what has no place in a text."""
    if isinstance(part, DataPart):
        return "" if part.private else as_text(part.data)
    if isinstance(part, BlobPart):
        return f"[file: {_joined(part.name, part.mime_type)}]"
    if isinstance(part, ArtifactPart):
        version = None if part.version is None else f"version {part.version}"
        return f"[artifact: {_joined(part.title, part.name, version, part.mime_type)}]"
    return ""


def _joined(*words: str | None) -> str:
    return ", ".join(word for word in words if word)
