"""Removes from events and selections the parts that a caller may not see. Operators and admins see everything."""

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
from turnwise.facts.waits import is_late

FAILED = "The agent failed."
"""Shown to users instead of an agent's exception text."""


def may_see_internals(caller: Caller) -> bool:
    """Returns whether the caller sees internal errors, agents beyond his roles, and state that all users share."""
    return caller.role != "user"


class Redactor:
    """Reduces events, selections, errors and state to what one caller may see.

    Attributes:
        inside: Whether the caller sees everything.
    """

    def __init__(self, caller: Caller, tree: AgentTree) -> None:
        self.inside, self._reports_late_results = may_see_internals(caller), may_report_late_results(caller)
        self._tree, self._roles = tree, frozenset(caller.agent_roles or ())
        self._any_role = caller.agent_roles is None

    @property
    def sees(self) -> tuple[bool, bool, frozenset[str]]:
        """Identifies the caller's view: callers with the same value see the same of a decision."""
        return self.inside, self._any_role, self._roles

    def reaches(self, agent: str) -> bool:
        """Returns whether the caller may know the agent. Agents that no longer exist may be known."""
        return self.inside or self._any_role or agent not in self._tree or self._tree.reachable(agent, self._roles)

    def answers(self, call: ToolCallPart | None) -> bool:
        """Returns whether the caller may answer a wait for this call; None is a wait for a reply."""
        return call is None or not is_late(call) or self._reports_late_results

    def event(self, event: Event) -> Event:
        """Returns the event as the caller may read it. An event always remains, even if it is empty.

        A user sees texts, the names of called tools, and only those calls in full that wait for an answer from
        outside. Thoughts, tool results, messages between agents, private questions and exception texts are removed.
        """
        if self.inside:
            return event
        error = None if event.error is None else self.error(event.error)
        return event.replace(content=self._content(event), actions=self._actions(event.actions), error=error)

    def error(self, error: ErrorInfo) -> ErrorInfo:
        """Returns the error without its internal message."""
        return error if self.inside else error.replace(message=FAILED)

    def end(self, end: End) -> End:
        """Returns the end; for a failed invocation, without the internal detail."""
        return end if self.inside or end.reason != "failed" else end.replace(detail=FAILED)

    def state(self, session: Session) -> Mapping[str, JsonValue]:
        """Returns the session's merged state; for users, without the keys that all users share."""
        return session.merged_state if self.inside else _without_app_keys(session.merged_state)

    def selection(self, selection: Selection) -> Selection:
        """Returns the selection without agents that the caller may not use, and without texts that name them.

        Ignored rules are removed, too, because they may depend on such agents; and so is the digest of the credential.
        """
        if self.inside:
            return selection
        excluded = self._visible_exclusions(selection.excluded)
        return selection.replace(
            reason=self._visible_text(selection.reason, f"It was chosen by {selection.method}."),
            excluded=excluded,
            excluded_count=len(excluded),
            verdicts=tuple(map(self._verdict, selection.verdicts)),
            credential="",
        )

    def _actions(self, actions: Actions) -> Actions:
        """Returns the actions without what is internal: steps, briefs, notes, jobs, app state."""
        return actions.replace(
            steps=(),
            brief=None,
            note=None,
            note_memory=(),
            summary=None,
            jobs=(),
            next=None,
            state_delta=_without_app_keys(actions.state_delta),
            state_before=_without_app_keys(actions.state_before),
            selection=None if actions.selection is None else self.selection(actions.selection),
            end=None if actions.end is None else self.end(actions.end),
        )

    def _verdict(self, verdict: Verdict) -> Verdict:
        """Returns the verdict with only the agents that the caller may see, and without texts that name others."""
        known = [each for each in verdict.candidates if self.reaches(each.agent)]
        candidates = [each.replace(evidence=self._visible_text(each.evidence)) for each in known]
        return verdict.replace(
            reason=self._visible_text(verdict.reason),
            question=self._visible_text(verdict.question),
            candidates=tuple(candidates),
            passed_over=self._visible_exclusions(verdict.passed_over),
            also=tuple(filter(self.reaches, verdict.also)),
            ignored=(),
        )

    def _content(self, event: Event) -> Content | None:
        """Returns the content that a user may read; None if nothing remains."""
        content, awaited = event.content, event.actions.awaits
        if content is None or event.author == USER:
            return content
        if event.is_private and awaited is None:
            return None
        asked = {call.call_id for call in content.tool_calls if awaited and self.answers(call)}
        parts = tuple(_parts(content, awaited.id if awaited and awaited.id in asked else None, partial=event.partial))
        return content.with_parts(parts) if parts else None

    def _visible_exclusions(self, excluded: tuple[Exclusion, ...]) -> tuple[Exclusion, ...]:
        known = (each for each in excluded if self.reaches(each.agent))
        return tuple(each.replace(detail=self._visible_text(each.detail)) for each in known)

    def _visible_text(self, text: str, instead: str = "") -> str:
        """Returns the text; `instead` if it names an agent that the caller may not use."""
        return instead if self._hidden_names is not None and self._hidden_names.search(text) else text

    @cached_property
    def _hidden_names(self) -> re.Pattern[str] | None:
        """Returns a pattern of the names of agents that the caller may not use; None if there are none."""
        names = [re.escape(card.name) for card in self._tree if not self.reaches(card.name)]
        return re.compile(rf"(?<!\w)(?:{'|'.join(names)})(?!\w)") if names else None


def _without_app_keys(state: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {key: value for key, value in state.items() if not key.startswith(APP_PREFIX)}


def _parts(content: Content, awaited: str | None, *, partial: bool) -> Iterator[Part]:
    """Yields the visible parts: no thinking, no private data; tool calls without arguments, except those the caller answers."""
    for part in content.parts:
        if isinstance(part, ThinkingPart) or (isinstance(part, DataPart) and part.private):
            continue
        if isinstance(part, ToolCallPart) and part.call_id != awaited and not part.offered:
            if not part.private and not partial:
                yield part.replace(arguments={}, raw=None, seal=None)
        elif isinstance(part, ToolResultPart):
            yield part.replace(result=None)
        elif isinstance(part, TextPart):
            yield part if part.seal is None else part.replace(seal=None)
        else:
            yield part
