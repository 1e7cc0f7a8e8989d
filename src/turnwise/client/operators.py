"""The client's resources for operators: the review of decisions, reports, experiments, and definitions."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from pydantic import JsonValue

from turnwise.client.connection import ApiRequest, Gateway, escape_path, get, post, session_path, with_revision
from turnwise.client.resources import paginate
from turnwise.facts.errors import DefinitionMissing
from turnwise.ports.definitions import DefinitionKind, FieldChange, content_differences
from turnwise.ports.experiments import Experiment
from turnwise.wire.decisions import (
    DecisionReportShown,
    DecisionSignals,
    EvaluationList,
    EvaluationShown,
    QueuedDecision,
    ReviewQueue,
    SignalShown,
)
from turnwise.wire.definitions import (
    DefinitionChangePage,
    DefinitionChangeShown,
    DefinitionPage,
    DefinitionShown,
    TrialShown,
)
from turnwise.wire.experiments import ExperimentList, ExperimentRow, ExperimentShown, PairedShown


class Review:
    """Finds decisions to label, and reports on all. For operators. All methods raise the gateway's errors and Unreached."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def queue(
        self, size: int = 50, *, random: float | None = None, seed: int | None = None, of: int | None = None
    ) -> Sequence[QueuedDecision]:
        """Returns the decisions to label next: the most contradicted, then the most doubtful, and some at random among them.

        Args:
            size: How many, at most 200.
            random: The share of random ones, 0 to 1; 0.1 if None.
            seed: The seed of the draw; None = each request draws anew.
            of: How many of the newest decisions are read; 2,000 if None.
        """
        asked = get("/review-queue", size=size, random=random, seed=seed, of=of)
        return (await self._gateway.ask(ReviewQueue, asked)).queue

    async def label(self, queued: Sequence[QueuedDecision], agent: str | None, *, note: str = "", unsure: bool = False) -> None:
        """Gives at most 200 decisions of the queue the same label, with how they were picked. None removes labels."""
        places = [
            {
                "user": each.decision.user,
                "session_id": each.decision.session_id,
                "sequence": each.decision.sequence,
                "picked": each.picked,
                "probability": each.probability,
            }
            for each in queued
        ]
        body = {"decisions": places, "agent": agent, "note": note, "unsure": unsure}
        await self._gateway.fetch(ApiRequest("POST", "/decision-labels", body=body))

    async def signals(self, session: str, sequence: int) -> Sequence[SignalShown]:
        """Returns what followed a decision in its conversation. Raises InvocationMissing."""
        path = session_path(session, "decisions", str(int(sequence)), "signals")
        return (await self._gateway.ask(DecisionSignals, get(path))).signals

    async def evaluations(self, limit: int = 20) -> Sequence[EvaluationShown]:
        """Returns what `turnwise eval --store` measured, newest first, at most 200."""
        return (await self._gateway.ask(EvaluationList, get("/evaluations", limit=limit))).evaluations

    async def report(
        self, *, since: datetime | None = None, limit: int | None = None, sample: int | None = None, seed: int | None = None
    ) -> DecisionReportShown:
        """Returns misroutes, what falls to nobody, conflicts and drift.

        Args:
            since: Only decisions made at this time or later.
            limit: How many of the newest decisions are read; 10,000 if None.
            sample: How many texts are grouped by meaning; 1,000 if None.
            seed: The seed of their draw.
        """
        asked = get("/decision-report", since=since.isoformat() if since else None, limit=limit, sample=sample, seed=seed)
        return await self._gateway.ask(DecisionReportShown, asked)


class Experiments:
    """Shows experiments, for operators; starts and ends them, for admins.

    All methods raise the gateway's errors and Unreached.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def list(self) -> Sequence[ExperimentRow]:
        """Returns the experiments that have started, by name."""
        return (await self._gateway.ask(ExperimentList, get("/experiments"))).experiments

    async def show(self, name: str) -> ExperimentShown:
        """Returns the analysis of an experiment. Raises NothingHere."""
        return await self._gateway.ask(ExperimentShown, get(_experiment_path(name)))

    async def shadow(self) -> PairedShown:
        """Compares the policy with its shadow, outside of experiments."""
        return await self._gateway.ask(PairedShown, get("/shadow"))

    async def start(self, experiment: Experiment) -> ExperimentRow:
        """Starts an experiment, whose arms name `policies` of the app.

        Raises RequestInvalid for an unknown policy, and StaleWriter while another one runs.
        """
        body = experiment.model_dump(mode="json")
        return await self._gateway.ask(ExperimentRow, ApiRequest("POST", "/experiments", body=body), repeatable=False)

    async def promote(self, name: str, arm: str) -> ExperimentRow:
        """Lets an arm decide for new sessions. Raises NothingHere, and StaleWriter after a rollback."""
        return await self._end(name, "promote", {"arm": arm})

    async def roll_back(self, name: str, reason: str = "") -> ExperimentRow:
        """Lets the control decide everywhere at once. Raises NothingHere."""
        return await self._end(name, "rollback", {"reason": reason})

    async def stop(self, name: str) -> ExperimentRow:
        """Takes no more sessions into the experiment. Raises NothingHere, and StaleWriter after another end."""
        return await self._end(name, "stop", None)

    async def _end(self, name: str, how: str, body: dict[str, str] | None) -> ExperimentRow:
        return await self._gateway.ask(ExperimentRow, ApiRequest("POST", f"{_experiment_path(name)}/{how}", body=body))


def _experiment_path(name: str) -> str:
    return f"/experiments/{escape_path(name)}"


Content = Mapping[str, JsonValue]
NO_BOUNDS: Mapping[str, float] = MappingProxyType({})


class Definitions:
    """Reads and changes the definitions of agents, or of policies.

    A change takes `expected`, the newest version that the caller knows; 0 = there is none. If there is another one by now, it
    raises DefinitionConflict, and nothing is changed. A change is not retried if it may have succeeded. All methods raise the
    gateway's errors and Unreached, and DefinitionMissing for an unknown name or version.
    """

    def __init__(self, gateway: Gateway, kind: DefinitionKind) -> None:
        self._gateway, self._kind = gateway, kind

    def list(self) -> AsyncIterator[DefinitionShown]:
        """Yields the newest version of each definition, by name, with drafts and retired ones."""
        return paginate(self._gateway, DefinitionPage, get(f"/definitions/{self._kind}"), _versions)

    async def get(self, name: str, version: int | None = None) -> DefinitionShown:
        """Returns a version, or the newest one."""
        if version is not None:
            return await self._gateway.ask(DefinitionShown, get(self._path(name, "versions", str(int(version)))))
        page = await self._gateway.ask(DefinitionPage, get(self._path(name, "versions"), limit=1))
        if not page.definitions:
            raise DefinitionMissing(f"The {self._kind} {name!r} has no definition.", fix="It serves as in code.")
        return page.definitions[0]

    def versions(self, name: str) -> AsyncIterator[DefinitionShown]:
        """Yields the versions of a definition, newest first; none for an agent that serves as in code."""
        return paginate(self._gateway, DefinitionPage, get(self._path(name, "versions")), _versions)

    async def put(self, name: str, content: Content, *, expected: int) -> DefinitionShown:
        """Stores a new version with this content, and optionally with `status` and `note`. Raises DefinitionInvalid."""
        return await self._changed(ApiRequest("PUT", self._path(name), body=content), expected)

    async def patch(self, name: str, changes: Content, *, expected: int) -> DefinitionShown:
        """Stores the newest version with other values of some keys; None takes a key out. Raises DefinitionInvalid."""
        return await self._changed(ApiRequest("PATCH", self._path(name), body=changes), expected)

    async def retire(self, name: str, *, expected: int) -> DefinitionShown:
        """Takes the definition out of service. Its versions stay. Raises DefinitionInvalid for the root."""
        return await self._changed(ApiRequest("DELETE", self._path(name)), expected)

    async def diff(self, name: str, old: int, new: int | None = None) -> Sequence[FieldChange]:
        """Returns what differs between two versions, by path; `new` is the newest one by default."""
        before, after = await self.get(name, old), await self.get(name, new)
        return content_differences(*({**each.content, "status": each.status} for each in (before, after)))

    async def try_version(
        self, name: str, version: int | None = None, *, labelled: bool = False, limit: int = 1_000
    ) -> TrialShown:
        """Returns what a version would change. Nothing is stored, and no agent runs.

        Args:
            name: The agent or policy.
            version: None = the newest one.
            labelled: Only labelled decisions.
            limit: How many recorded decisions are made again, the newest ones.
        """
        body = {"version": version, "labelled": labelled, "limit": limit}
        return await self._gateway.ask(TrialShown, post(self._path(name, "try"), body))

    async def activate(
        self,
        name: str,
        version: int,
        *,
        expected: int,
        note: str = "",
        at_least: Mapping[str, float] = NO_BOUNDS,
        at_most: Mapping[str, float] = NO_BOUNDS,
        limit: int = 1_000,
    ) -> DefinitionShown:
        """Serves the content of a version, such as a draft, as a new version.

        Args:
            name: The agent or policy.
            version: The version.
            expected: The newest version.
            note: Why.
            at_least: Lower bounds on figures of a trial, such as `{"gain": 0}`.
            at_most: Upper bounds on figures of a trial, such as `{"changed_share": 0.05}`.
            limit: How many decisions the trial takes.

        Raises:
            DefinitionOutOfBounds: A figure misses its bound; nothing is changed.
        """
        body = {"version": version, "note": note, "min": dict(at_least), "max": dict(at_most), "limit": limit}
        return await self._changed(post(self._path(name, "activate"), body), expected)

    async def rollback(self, name: str, version: int | None = None, *, expected: int, note: str = "") -> DefinitionShown:
        """Serves an earlier version again, as a new version; None = the one that served before."""
        return await self._changed(post(self._path(name, "rollback"), {"version": version, "note": note}), expected)

    def _path(self, name: str, *more: str) -> str:
        return "/".join(["/agents" if self._kind == "agent" else "/policies", escape_path(name), *more])

    async def _changed(self, asked: ApiRequest, expected: int) -> DefinitionShown:
        return await self._gateway.ask(DefinitionShown, with_revision(asked, int(expected)), repeatable=False)


class AgentDefinitions(Definitions):
    """Reads and changes the definitions of agents."""

    async def add_example(self, name: str, text: str, *, expected: int) -> DefinitionShown:
        """Adds an example after those that the agent has, in code or by definition."""
        return await self._changed(post(self._path(name, "examples"), {"text": text}), expected)

    async def add_pattern(self, name: str, regex: str, *, expected: int, confidence: float = 0.8) -> DefinitionShown:
        """Adds an RE2 pattern after those that the agent has, in code or by definition."""
        return await self._changed(post(self._path(name, "patterns"), {"regex": regex, "confidence": confidence}), expected)

    def changes(self) -> AsyncIterator[DefinitionChangeShown]:
        """Yields the changes of all definitions, newest first: who, when, why and what."""
        return paginate(self._gateway, DefinitionChangePage, get("/definitions/changes"), lambda page: page.changes)


def _versions(page: DefinitionPage) -> Sequence[DefinitionShown]:
    return page.definitions
