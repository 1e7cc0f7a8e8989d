"""Events of a session as the ADK has them, for one reader. Pure."""

from collections import deque
from collections.abc import Iterable, Iterator

from pydantic import JsonValue

from turnwise.facts.content import Content as Ours
from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import USER
from turnwise.facts.events import Actions as OurActions
from turnwise.facts.events import Event as OurEvent
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.facts.usage import Usage
from turnwise.gateway.adk.parts import parts_of, version_out
from turnwise.gateway.adk.schema import Actions, Confirmation, Content, Event, NodeInfo, UsageMetadata
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.utterances import COMPLETE_ENDS, failure_text
from turnwise.transcript.waits import kind_of

BEHIND = "turnwise"
"""Below which key of an event's metadata it stands who was selected, and why."""


class EventWriter:
    """Takes the events of one session in their order, partial ones too, and gives what the reader sees of each."""

    def __init__(self, key: SessionKey, view: Redactor) -> None:
        self._key, self._view = key, view
        self._decided: deque[Selection] = deque()
        self._failed: set[str] = set()
        self._calls: dict[str, ToolCallPart] = {}

    def tell(self, event: OurEvent) -> Event | None:
        """The event; None when there is nothing in it for the reader. What is said in private calls is their caller's."""
        event = self._with_call(event)
        if event.is_private and event.actions.awaits is None:
            event = _kept(event)
        shown = self._view.event(event)
        decides = self._decides(shown)
        content, actions, error = self._content(shown), self._actions(shown), self._error(shown)
        if content is None and actions == Actions() and not error and not decides:
            return None
        usage = shown.actions.usage
        return Event(
            id=shown.id,
            author=shown.author,
            invocation_id=shown.invocation_id,
            timestamp=shown.created_at.timestamp(),
            content=content,
            partial=True if shown.partial else None,
            interrupted=True if shown.actions.end is not None and shown.actions.end.reason == "cancelled" else None,
            finish_reason=None if shown.actions.cut_off is None else "MAX_TOKENS",
            error_code=error[0] if error else None,
            error_message=error[1] if error else None,
            custom_metadata=self._behind(shown),
            usage_metadata=_usage(usage),
            model_version=usage.model or None if usage else None,
            actions=actions,
            long_running_tool_ids=sorted(call.call_id for call in self._awaited(shown)) or None,
            branch=_branch(shown.branch),
            node_info=NodeInfo(path="" if shown.author == USER else shown.author),
        )

    def _with_call(self, event: OurEvent) -> OurEvent:
        """The event, with the call whose result it begins to wait for, if that was made in another one: the ADK's clients are
        told with a call that it takes long.
        """
        if event.content is not None and not event.partial:
            self._calls |= {call.call_id: call for call in event.content.tool_calls if not call.offered}
        awaits = event.actions.awaits
        call = self._calls.get(awaits.id) if awaits and event.content is None else None
        if call is None or not self._view.answers(kind_of(call, event)):
            return event
        return event.model_copy(update={"content": Ours(parts=(call,))})

    def _content(self, event: OurEvent) -> Content | None:
        if event.content is None:
            return None
        parts = parts_of(event.content, self._key, partial=event.partial)
        if not parts:
            return None
        given = all(part.function_response is not None for part in parts)
        return Content(parts=parts, role="user" if given or event.author == USER else "model")

    def _actions(self, event: OurEvent) -> Actions:
        actions = event.actions
        asked = [call for call in self._awaited(event) if kind_of(call, event) == "confirm"]
        hint = event.text
        return Actions(
            state_delta=actions.state_delta,
            artifact_delta={name: version_out(version) for name, version in actions.artifact_versions.items()},
            transfer_to_agent=actions.transfer_to,
            escalate=True if actions.escalate else None,
            requested_tool_confirmations={str(call.arguments.get("call")): Confirmation(hint=hint) for call in asked},
        )

    def _awaited(self, event: OurEvent) -> Iterator[ToolCallPart]:
        """The calls in it whose results are this reader's to give."""
        awaits, content = event.actions.awaits, event.content or Ours()
        for call in () if event.partial else content.tool_calls:
            if (call.offered or (awaits and awaits.id == call.call_id)) and self._view.answers(kind_of(call, event)):
                yield call

    def _error(self, event: OurEvent) -> tuple[str, str] | None:
        """What failed, told once for each invocation."""
        end = event.actions.end
        if event.error is not None:
            self._failed.add(event.invocation_id)
            return event.error.code, event.error.message
        if end is None or end.reason in COMPLETE_ENDS or event.invocation_id in self._failed:
            return None
        return end.reason, failure_text(end.reason, None, self._view)

    def _decides(self, event: OurEvent) -> bool:
        """Whether it is an agent's event with a decision. That of a message is told with what comes of it, if anything does."""
        decided = event.actions.selection
        if decided is None:
            return False
        if event.author == USER:
            self._decided.clear()
        self._decided.append(decided)
        return event.author != USER

    def _behind(self, event: OurEvent) -> dict[str, JsonValue] | None:
        """Who was selected, and why: with the first whole event after that, one decision with each."""
        if not self._decided or event.author == USER or event.partial:
            return None
        decided = self._decided.popleft()
        return {BEHIND: {"agent": decided.agent, "method": decided.method, "reason": decided.reason}}


def write_events(events: Iterable[OurEvent], key: SessionKey, view: Redactor) -> list[Event]:
    """All of these, which are one session's in their order."""
    telling = EventWriter(key, view)
    return [shown for shown in map(telling.tell, events) if shown is not None]


def _kept(event: OurEvent) -> OurEvent:
    """The event with nothing but what it put into the state and among the artifacts, which are everybody's."""
    actions = OurActions(state_delta=event.actions.state_delta, artifact_versions=event.actions.artifact_versions)
    return event.model_copy(update={"content": None, "error": None, "actions": actions})


def _usage(usage: Usage | None) -> UsageMetadata | None:
    if usage is None:
        return None
    return UsageMetadata(
        prompt_token_count=usage.input_tokens,
        cached_content_token_count=usage.cached_tokens or None,
        candidates_token_count=usage.output_tokens,
        total_token_count=usage.input_tokens + usage.output_tokens,
    )


def _branch(branch: str) -> str | None:
    """The names in it, joined by dots; None where nothing runs beside it."""
    names = [part[1:] for part in branch.split("/") if part[:1] in ("~", ">")]
    return ".".join(names) or None
