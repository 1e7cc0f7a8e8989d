"""Groups: the units that a transcript keeps or drops as a whole, such as an answer with its calls and all their results."""

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
from turnwise.facts.events import USER, Actions, Event
from turnwise.facts.fact import values_of
from turnwise.facts.memory import FORGOTTEN, ShownMemory
from turnwise.transcript.fences import attributed, escape_fences, escape_fences_in, remembered, runtime_note
from turnwise.transcript.view import LoggedCall, View, VisibleLog, as_text, question_of, tokens_of_part

CALL_CHARACTERS, RESULT_CHARACTERS = 200, 500
"""The maximum lengths of another agent's call and of its result."""
OWN_CHARACTERS = 4_000
"""The maximum length of the reader's own calls and results when they are shown as text."""
FILE_CHARACTERS = 50_000
"""The maximum length of a text file."""
STILL_TO_COME = "The result is still to come."
NO_RESULT = "There is no result."
APPROVAL_NOTE = "leave"
"""The name of the note about an approval question."""
SITUATION_NOTE = "now"
"""The name of the note on the reader's situation."""
NOTE_REVOKED = "The notes before this one no longer apply."
"""The note on the reader's situation when it is usual again."""
YOU_ASKED = "A person was asked whether you may call {}."
OTHER_ASKED = "A person was asked whether {} may call a tool."

_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")
_TOOL_CHARACTERS = 64
_SITUATION = runtime_note(SITUATION_NOTE, "").removesuffix("</said>")


class Group(NamedTuple):
    """One step of the conversation. Its n-th result belongs to its n-th call, and results come first in `heard`."""

    said: tuple[Part, ...] = ()
    """The reader's parts; may be empty."""
    heard: tuple[Part, ...] = ()
    """The parts of others; may be empty."""
    tokens: int = 0
    """The estimated size."""
    events: int = 1
    """The number of events in the group."""
    told: tuple[Part, ...] = ()
    """The note on the reader's situation that it got before `said`; may be empty."""

    @property
    def is_empty(self) -> bool:
        return not self.said and not self.heard


NOTHING = Group()
"""The group of an event of which the reader sees nothing."""


def group_of(said: Iterable[Part], heard: Iterable[Part], events: int = 1, told: Iterable[Part] = ()) -> Group:
    """Returns the group of these parts, with its estimated size."""
    said, heard, told = tuple(said), tuple(heard), tuple(told)
    return Group(said, heard, sum([tokens_of_part(part) for part in (*told, *said, *heard)]), events, told)


class Note(NamedTuple):
    """The text that a model gets beside the conversation, right before its answer. It is false if it is empty."""

    text: str = ""
    """The reader's situation, as the runtime says it."""
    memory: tuple[ShownMemory, ...] = ()
    """Entries of the user's memory: information, never the runtime's words."""

    def __bool__(self) -> bool:
        return bool(self.text or self.memory)

    def part(self) -> TextPart:
        """Returns the note as the reader sees it: the situation, then each entry in a mark."""
        situation = [runtime_note(SITUATION_NOTE, self.text)] if self.text else []
        entries = [remembered(each.said_by, each.at, each.text) for each in self.memory if each.text != FORGOTTEN]
        return TextPart(text="\n".join([*situation, *entries]))


def states_situation(part: Part | None) -> bool:
    """Returns whether a note holds a situation that was not revoked."""
    if not isinstance(part, TextPart) or not part.text.startswith(_SITUATION):
        return False
    return not part.text.startswith(runtime_note(SITUATION_NOTE, NOTE_REVOKED))


def _notes_of(event: Event) -> list[Part]:
    """Returns the note that its author's model got right before the event, if any."""
    actions = event.actions
    if not actions.note and not actions.note_memory:
        return []
    part = Note(actions.note or "", actions.note_memory).part()
    return [part] if part.text else []


def group_at(place: int, reading: VisibleLog, view: View) -> Group:
    """Returns the group of the event at that place, as the reader sees it; empty when it sees nothing."""
    event, calls = reading.events[place], reading.calls.get(place, ())
    if event.author == USER:
        return group_of((), _user_parts(event))
    if event.author != view.agent:
        return group_of((), _other_parts(event, calls, view))
    notes = _notes_of(event)
    if not calls and not notes and not view.calls_as_text and event.actions.awaits is None:
        return group_of(_own_parts(event, (), (), sealed=_is_run(event, view)), ())
    interleaved = [reading.events[other] for other in reading.interleaved.get(place, ())]
    questions = [question for each in (event, *interleaved) if (question := question_of(each))]
    asked = [
        TextPart(text=runtime_note(APPROVAL_NOTE, YOU_ASKED.format(_provider_tool_name(str(part.arguments["tool"])))))
        for part in questions
    ]
    results: Sequence[Part]
    if view.calls_as_text:
        said = _own_parts(event, (), interleaved, sealed=False)
        results = [_call_and_result(event, call) for call in calls]
    else:
        said = _own_parts(event, calls, interleaved, sealed=_is_run(event, view))
        results = [_provider_result(call) for call in calls]
    events = {place, *(call.ended for call in calls), *reading.interleaved.get(place, ())}
    return group_of(said, [*results, *asked], len(events), notes)


def plain_groups(events: Iterable[Event], view: View) -> list[Group | None]:
    """Returns the groups of events with a single text that the reader sees unchanged, and of events that say nothing; None for
    each other event.

    This is the usual case, and there may be thousands. Such a group depends on no other event, unless a call of the same
    invocation is open.
    """
    agent, found, quiet = view.agent, list[Group | None](), dict[int, bool]()
    for values in map(values_of, events):
        actions, content = values["actions"], values["content"]
        is_quiet = quiet.get(id(actions))  # many events share their actions
        if is_quiet is None:
            is_quiet = quiet[id(actions)] = _are_quiet(actions)
        group = NOTHING if is_quiet and content is None else None
        if is_quiet and content is not None and not (values["error"] or values["scope"] or values["partial"]):
            parts, author = values_of(content)["parts"], values["author"]
            if len(parts) == 1 and (author in (USER, agent)) and "/>" not in values["branch"]:
                tokens = _plain_tokens(parts[0], escaped=author == USER)
                if tokens:
                    group = Group((), parts, tokens) if author == USER else Group(parts, (), tokens)
        found.append(group)
    return found


def _are_quiet(actions: Actions) -> bool:
    """Returns whether the actions neither change what a transcript shows of their event nor concern other events."""
    said = actions.brief or actions.note or actions.note_memory
    return not said and actions.awaits is None and actions.summary is None and actions.rewind is None


def _plain_tokens(part: Part, *, escaped: bool) -> int:
    """Returns the estimated size of a text that is shown unchanged; 0 for any other part."""
    if type(part) is not TextPart:
        return 0
    values = values_of(part)
    text = values["text"]
    if values["seal"] is not None or not text or text.isspace() or (escaped and escape_fences(text) != text):
        return 0
    return tokens_of_part(part)


def opening_group(content: Content, by: str | None) -> list[Part]:
    """Returns the parts that open a run when the log does not hold its opening.

    Args:
        content: The opening.
        by: The agent that sent it, empty if unknown; None for the user.
    """
    if by is None:
        return _parts_of_user(content)
    return _parts_of_agent(by, content, to_reader=True)


def _is_run(event: Event, view: View) -> bool:
    return event.invocation_id == view.invocation_id and event.branch == view.branch


# --- the reader's own events


def _own_parts(event: Event, calls: Sequence[LoggedCall], interleaved: Sequence[Event], *, sealed: bool) -> list[Part]:
    """Returns the reader's text, then its calls.

    Thinking keeps its position and is only included in the current run: there, providers require it unchanged, with its
    seal.
    """
    shown = {id(call.part) for call in calls}
    words: list[Part] = []
    calls_and_thinking: list[Part] = []
    for part in _author_parts(event):
        if isinstance(part, ToolCallPart):
            calls_and_thinking += [_provider_call(part, sealed=sealed)] if id(part) in shown else []
        elif isinstance(part, ThinkingPart):
            (calls_and_thinking or words).extend([part] if sealed else [])
        else:
            words += _texts_of(part, sealed=sealed)
    for other in interleaved:
        for part in _author_parts(other):
            words += _texts_of(part, sealed=sealed)
    said = [*words, *calls_and_thinking]
    while said and isinstance(said[-1], ThinkingPart):
        said.pop()
    return said


def _author_parts(event: Event) -> Sequence[Part]:
    """Returns the parts of the event's author. An approval question belongs to the agent's loop and is left out."""
    return () if event.content is None or question_of(event) else event.content.parts


def _texts_of(part: Part, *, sealed: bool) -> list[Part]:
    if isinstance(part, TextPart):
        kept = part if sealed or part.seal is None else TextPart(text=part.text)
        return [kept] if part.text and not part.text.isspace() else []
    text = _placeholder(part)
    return [TextPart(text=text)] if text.strip() else []


def _provider_call(part: ToolCallPart, *, sealed: bool) -> ToolCallPart:
    seal, tool = part.seal if sealed else None, _provider_tool_name(part.tool)
    return part if (seal, tool) == (part.seal, part.tool) else part.replace(seal=seal, tool=tool)


def _provider_result(call: LoggedCall) -> ToolResultPart:
    """Returns the call's result as the provider gets it; a missing one is explained."""
    tool, found = _provider_tool_name(call.part.tool), call.result
    if found is None:
        text = STILL_TO_COME if call.awaited else NO_RESULT
        return ToolResultPart(call_id=call.part.call_id, tool=tool, result=text, failed=not call.awaited)
    value = escape_fences_in(found.result)
    if value is found.result and tool == found.tool:
        return found
    return ToolResultPart(call_id=found.call_id, tool=tool, result=value, failed=found.failed)


def _call_and_result(event: Event, call: LoggedCall) -> TextPart:
    """Returns one of the reader's calls and its result as text."""
    return TextPart(text=attributed(event.author, _call_text(call, OWN_CHARACTERS, OWN_CHARACTERS), calls=call.part.tool))


def _provider_tool_name(name: str) -> str:
    """Returns the tool's name in a form that providers accept. Models may call tools by any name, even of tools that do not
    exist.
    """
    return _NO_NAME.sub("_", name)[:_TOOL_CHARACTERS] or "tool"


# --- events of others


def _user_parts(event: Event) -> list[Part]:
    said = event.actions.brief or event.content
    return _parts_of_user(said) if said else []


def _parts_of_user(content: Content) -> list[Part]:
    """Returns a user's parts with marks escaped; files as text or as they are."""
    heard: list[Part] = []
    for part in content.parts:
        if isinstance(part, TextPart):
            text = escape_fences(part.text)
            if text and not text.isspace():
                heard.append(part if text == part.text and part.seal is None else TextPart(text=text))
        elif isinstance(part, BlobPart):
            heard.append(TextPart(text=escape_fences(_file_text(part))) if _is_text(part) else part)
        elif text := _placeholder(part):
            heard.append(TextPart(text=escape_fences(text)))
    return heard


def _other_parts(event: Event, calls: Sequence[LoggedCall], view: View) -> list[Part]:
    """Returns what the reader sees of another agent's event: its text, calls and results in marks."""
    heard: list[Part] = []
    if question_of(event):
        heard.append(TextPart(text=runtime_note(APPROVAL_NOTE, OTHER_ASKED.format(event.author))))
    elif event.content is not None:
        heard += _parts_of_agent(event.author, event.content, to_reader=False)
        heard += [TextPart(text=attributed(event.author, _call_text(call), calls=call.part.tool)) for call in calls]
    if event.actions.brief is not None and event.actions.transfer_to == view.agent:
        heard += _parts_of_agent(event.author, event.actions.brief, to_reader=True)
    return heard


def _parts_of_agent(agent: str, content: Content, *, to_reader: bool) -> list[Part]:
    """Returns the agent's text in one mark. Files for the reader stay files, except text files, which become text."""
    texts: list[str] = []
    files: list[Part] = []
    for part in content.parts:
        if to_reader and isinstance(part, BlobPart) and _is_text(part):
            texts.append(_file_text(part))
        elif to_reader and isinstance(part, BlobPart):
            files.append(part)
        elif text := part.text if isinstance(part, TextPart) else _placeholder(part):
            texts += [text] if text.strip() else []
    if not texts and not files:
        return []
    return [TextPart(text=attributed(agent, "\n".join(texts), to_reader=to_reader)), *files]


def _call_text(call: LoggedCall, most_call: int = CALL_CHARACTERS, most_result: int = RESULT_CHARACTERS) -> str:
    """Returns a call and its result as one line, both shortened."""
    arguments = as_text(call.part.arguments) if call.part.raw is None else call.part.raw
    shown = _truncated(arguments, most_call)
    if call.result is None:
        return shown
    failed = "failed: " if call.result.failed else ""
    return f"{shown} → {failed}{_truncated(as_text(call.result.result), most_result)}"


def _truncated(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"


def _is_text(file: BlobPart) -> bool:
    return file.mime_type.strip().casefold().startswith("text/")


def _file_text(file: BlobPart) -> str:
    """Returns a text file as text. A provider would show it as text anyway, with any marks in it."""
    text = file.data.decode("utf-8", "replace")
    missing = len(text) - FILE_CHARACTERS
    left_out = f"[… {missing:,} characters are left out here …]" if missing > 0 else ""
    return f"{_placeholder(file)}\n{text[:FILE_CHARACTERS]}{left_out}"


def _placeholder(part: Part) -> str:
    """Returns the text for a part that is no text; empty for parts that are not shown."""
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
