"""The services of one app, bound to the caller of a request. They check the caller's rights; all protocols use them."""

import asyncio
from functools import cached_property

from turnwise.access.quotas import Quotas
from turnwise.config.definition_editor import DefinitionEditor
from turnwise.facts.callers import Caller
from turnwise.facts.ids import Issuer, SystemIssuer
from turnwise.gateway.services.agents import Addressees, Agents, Linting, LintReport, Plans
from turnwise.gateway.services.artifacts import Artifacts
from turnwise.gateway.services.background import BackgroundTasks, CachedResults, Locks
from turnwise.gateway.services.conversations import Conversations, RefusedRequests
from turnwise.gateway.services.decisions import REPORT_SECONDS, DecisionFeed, Decisions, Reports, Reviews
from turnwise.gateway.services.definitions import Definitions
from turnwise.gateway.services.experiments import Analyses, Experiments
from turnwise.gateway.services.invocations import Invocations, Tasks
from turnwise.gateway.services.memories import Memories
from turnwise.gateway.services.messages import Messages, RunSlots
from turnwise.gateway.services.pushes import Pushes, PushFeed
from turnwise.gateway.services.records import Records
from turnwise.gateway.services.session_admission import Prices, SessionScope
from turnwise.gateway.services.sessions import Sessions
from turnwise.gateway.services.threads import Threads
from turnwise.learning.decision_report import DecisionReport
from turnwise.runner import Runner


class SharedState:
    """State and services that all requests of one app share."""

    def __init__(
        self,
        runner: Runner,
        quotas: Quotas,
        closing: asyncio.Event,
        issuer: Issuer | None = None,
        editor: DefinitionEditor | None = None,
    ) -> None:
        self.runner, self.quotas, self.issuer, self.editor = runner, quotas, issuer or SystemIssuer(), editor
        self.tasks = BackgroundTasks()
        """The tasks that have to end before the process stops."""
        self.detached = BackgroundTasks()
        """Work that another process can do as well."""
        self.locks, self.refused = Locks(), RefusedRequests()
        self.slots = RunSlots(quotas, closing, self.tasks)
        self.push_feed = PushFeed(runner, self.issuer)
        self.decision_feed = DecisionFeed(runner)
        self.analyses = Analyses(self.detached)
        self.reports = CachedResults[DecisionReport](self.detached, seconds=REPORT_SECONDS)
        self.lint_reports = CachedResults[LintReport](self.detached)


class Services:
    """The services of one app, bound to a caller and to the user that the request names. Made for each request.

    Args:
        state: The state and services that the requests share.
        caller: The caller.
        named: The user that the request names; None for the caller.
    """

    def __init__(self, state: SharedState, caller: Caller, named: str | None = None) -> None:
        self._state, self._runner = state, state.runner
        self.scope = SessionScope(state.runner, caller, named)

    def for_user(self, named: str | None) -> "Services":
        """Returns the services of the same caller for another named user."""
        return Services(self._state, self.scope.caller, named)

    @cached_property
    def addressees(self) -> Addressees:
        return Addressees(self._runner, self.scope)

    @cached_property
    def agents(self) -> Agents:
        return Agents(self._runner, self.scope)

    @cached_property
    def artifacts(self) -> Artifacts:
        return Artifacts(self._runner, self.scope)

    @cached_property
    def conversations(self) -> Conversations:
        state = self._state
        return Conversations(self._runner, self.scope, self.messages, state.locks, state.refused, self.prices, state.issuer)

    @cached_property
    def decisions(self) -> Decisions:
        return Decisions(self._runner, self.scope)

    @cached_property
    def definitions(self) -> Definitions:
        state = self._state
        return Definitions(state.editor, self._runner, self.scope, state.issuer, state.locks)

    @cached_property
    def experiments(self) -> Experiments:
        return Experiments(self._runner, self.scope, self._state.issuer, self._state.analyses)

    @cached_property
    def invocations(self) -> Invocations:
        return Invocations(self._runner, self.scope, self.messages, self._state.detached)

    @cached_property
    def linting(self) -> Linting:
        return Linting(self._runner, self.scope, self._state.lint_reports)

    @cached_property
    def memories(self) -> Memories:
        return Memories(self._runner, self.scope, self._state.issuer)

    @cached_property
    def messages(self) -> Messages:
        return Messages(self._runner, self.scope, self._state.slots, self.prices)

    @cached_property
    def plans(self) -> Plans:
        return Plans(self._runner, self.scope)

    @cached_property
    def prices(self) -> Prices:
        return Prices(self._runner, self._state.quotas, self.scope.caller)

    @cached_property
    def pushes(self) -> Pushes:
        return Pushes(self._runner, self.scope, self._state.push_feed, self._state.issuer)

    @cached_property
    def records(self) -> Records:
        return Records(self._runner, self.scope, self._state.issuer)

    @cached_property
    def reports(self) -> Reports:
        return Reports(self._runner, self.scope, self._state.reports)

    @cached_property
    def reviews(self) -> Reviews:
        return Reviews(self._runner, self.scope)

    @cached_property
    def sessions(self) -> Sessions:
        return Sessions(self._runner, self.scope, self.prices, self._state.issuer)

    @cached_property
    def tasks(self) -> Tasks:
        return Tasks(self._runner, self.scope)

    @cached_property
    def threads(self) -> Threads:
        state = self._state
        return Threads(self._runner, self.scope, self.messages, state.locks, state.tasks, self.prices, state.issuer)
