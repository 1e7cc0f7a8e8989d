"""What of the records is for whom: users see their conversation, operators and admins how it came about, too."""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property

from pydantic import JsonValue

from turnwise.access.rights import may_report_late_results
from turnwise.facts.callers import Caller
from turnwise.facts.content import Content, DataPart, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from turnwise.facts.events import USER, Actions, End, ErrorInfo, Event
from turnwise.facts.selections import Exclusion, Selection, Verdict
from turnwise.facts.sessions import APP_PREFIX, Session
from turnwise.facts.tree import AgentTree
from turnwise.transcript.waits import Kind, kind_of

FAILED = "The agent failed."
"""What a user reads instead of what an agent raised: that is for those who keep it."""


def may_see_internals(caller: Caller) -> bool:
    """Whether the caller is shown what went wrong inside, agents that he cannot reach, and what all users share."""
    return caller.role != "user"


class Redactor:
    """What one caller is shown. roles: those by which he reaches agents."""

    def __init__(self, caller: Caller, tree: AgentTree) -> None:
        self.inside, self._tells_late = may_see_internals(caller), may_report_late_results(caller)
        self._tree, self._roles = tree, frozenset(caller.agent_roles or ())
        self._any_role = caller.agent_roles is None

    def reaches(self, agent: str) -> bool:
        """Whether the caller may know of that agent. One that is no more is known by whatever it left behind."""
        return self.inside or self._any_role or agent not in self._tree or self._tree.reachable(agent, self._roles)

    def answers(self, kind: Kind) -> bool:
        """Whether a call of that kind is the caller's to answer, so that it can be put to him."""
        return kind != "late" or self._tells_late

    def event(self, event: Event) -> Event:
        """The event as the caller may read it: every one has its place, also if nothing of it is left.

        A user sees what is said, which tools are called, and in full only the calls that wait for somebody outside. What was
        thought, looked up, told among agents, asked in private, or said by an exception stays inside.
        """
        if self.inside:
            return event
        update: dict[str, object] = {"content": self._content(event), "actions": self._actions(event.actions)}
        if event.error is not None:
            update["error"] = self.error(event.error)
        return event.model_copy(update=update)

    def error(self, error: ErrorInfo) -> ErrorInfo:
        """The error without what is for those who keep the agents."""
        return error if self.inside else error.model_copy(update={"message": FAILED})

    def end(self, end: End) -> End:
        """The end, of a failed invocation without what is for those who keep the agents."""
        return end if self.inside or end.reason != "failed" else end.model_copy(update={"detail": FAILED})

    def state(self, session: Session) -> Mapping[str, JsonValue]:
        """The session's state, and what it shares; without what all users share."""
        return session.merged_state if self.inside else _own(session.merged_state)

    def selection(self, selection: Selection) -> Selection:
        """The selection without agents that the caller cannot reach, without what is said of them, and without what was not
        obeyed: why not may depend on them.
        """
        if self.inside:
            return selection
        excluded = self._known(selection.excluded)
        return selection.model_copy(
            update={
                "reason": self._words(selection.reason, f"It was chosen by {selection.method}."),
                "excluded": excluded,
                "excluded_count": len(excluded),
                "verdicts": tuple(map(self._verdict, selection.verdicts)),
            }
        )

    def _actions(self, actions: Actions) -> Actions:
        changed: dict[str, object] = {"steps": (), "brief": None, "summary": None, "jobs": (), "next": None}
        changed |= {name: _own(getattr(actions, name)) for name in ("state_delta", "state_before")}
        if actions.selection is not None:
            changed["selection"] = self.selection(actions.selection)
        if actions.end is not None:
            changed["end"] = self.end(actions.end)
        return actions.model_copy(update=changed)

    def _verdict(self, verdict: Verdict) -> Verdict:
        known = [each for each in verdict.candidates if self.reaches(each.agent)]
        candidates = [each.model_copy(update={"evidence": self._words(each.evidence)}) for each in known]
        update = {
            "reason": self._words(verdict.reason),
            "question": self._words(verdict.question),
            "candidates": tuple(candidates),
            "passed_over": self._known(verdict.passed_over),
            "also": tuple(filter(self.reaches, verdict.also)),
            "ignored": (),
        }
        return verdict.model_copy(update=update)

    def _content(self, event: Event) -> Content | None:
        """What a user reads of the event; None when nothing is left."""
        content, awaited = event.content, event.actions.awaits
        if content is None or event.author == USER:
            return content
        if event.is_private and awaited is None:
            return None
        asked = {call.call_id for call in content.tool_calls if awaited and self.answers(kind_of(call, event))}
        parts = tuple(_parts(content, awaited.id if awaited and awaited.id in asked else None, partial=event.partial))
        return content.model_copy(update={"parts": parts}) if parts else None

    def _known(self, excluded: tuple[Exclusion, ...]) -> tuple[Exclusion, ...]:
        known = (each for each in excluded if self.reaches(each.agent))
        return tuple(each.model_copy(update={"detail": self._words(each.detail)}) for each in known)

    def _words(self, text: str, instead: str = "") -> str:
        """The text, unless an agent is named in it that the caller cannot reach."""
        return instead if self._hidden is not None and self._hidden.search(text) else text

    @cached_property
    def _hidden(self) -> re.Pattern[str] | None:
        """The names of all whom the caller cannot reach; None when that is nobody."""
        names = [re.escape(card.name) for card in self._tree if not self.reaches(card.name)]
        return re.compile(rf"(?<!\w)(?:{'|'.join(names)})(?!\w)") if names else None


def _own(state: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {key: value for key, value in state.items() if not key.startswith(APP_PREFIX)}


def _parts(content: Content, awaited: str | None, *, partial: bool) -> Iterator[Part]:
    for part in content.parts:
        if isinstance(part, ThinkingPart) or (isinstance(part, DataPart) and part.private):
            continue
        if isinstance(part, ToolCallPart) and part.call_id != awaited and not part.offered:
            if not part.private and not partial:
                yield part.model_copy(update={"arguments": {}, "raw": None, "seal": None})
        elif isinstance(part, ToolResultPart):
            yield part.model_copy(update={"result": None})
        elif isinstance(part, TextPart):
            yield part if part.seal is None else part.model_copy(update={"seal": None})
        else:
            yield part
