"""The client's resources for operators: the review of decisions, reports, and experiments."""

from collections.abc import Sequence
from datetime import datetime

from turnwise.client.connection import Gateway
from turnwise.client.request import ApiRequest, escape_path, get, session_path
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
        return await self._gateway.ask(ExperimentShown, get(_path(name)))

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
        return await self._gateway.ask(ExperimentRow, ApiRequest("POST", f"{_path(name)}/{how}", body=body))


def _path(name: str) -> str:
    return f"/experiments/{escape_path(name)}"
