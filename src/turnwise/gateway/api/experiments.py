"""Routes that show experiments, start and end them. Operators read, admins write."""

from typing import Annotated, Any

from fastapi import Path

from turnwise.gateway.api.errors import problems
from turnwise.gateway.front import TheServices
from turnwise.gateway.openapi import api_router
from turnwise.ports.experiments import ExperimentRecord
from turnwise.wire.experiments import (
    ArmShown,
    ExperimentList,
    ExperimentRow,
    ExperimentShown,
    PairedShown,
    PointShown,
    PromoteArm,
    RollBackExperiment,
    StartExperiment,
)
from turnwise.wire.messages import PLAIN

router = api_router("experiments")

_Name = Annotated[
    str, Path(min_length=1, max_length=64, pattern=PLAIN, description="The experiment's name.", examples=["careful-margin"])
]
_ENDED: Any = {"response_model": ExperimentRow, "response_description": "The experiment."}


@router.get(
    "/experiments",
    summary="List experiments",
    response_model=ExperimentList,
    response_description="The experiments.",
    responses=problems(404),
)
async def list_experiments(services: TheServices) -> ExperimentList:
    """Lists the experiments that have started, by name. Needs the permission `definitions:read`."""
    records, configured = await services.experiments.list()
    return ExperimentList(experiments=[_row(each) for each in records], configured=configured)


@router.post(
    "/experiments",
    status_code=201,
    summary="Start an experiment",
    response_model=ExperimentRow,
    response_description="The experiment.",
    responses=problems(404, 409, body=True),
)
async def start_experiment(body: StartExperiment, services: TheServices) -> ExperimentRow:
    """Starts an experiment: sessions that begin from now on are in it, in all processes within a second.

    One experiment runs at a time, and `turnwise.yaml` must have none. The arms name `policies` of `turnwise.yaml`. Needs the
    permission `definitions:write`.
    """
    return _row(await services.experiments.start(body))


@router.get(
    "/experiments/{experiment_name}",
    summary="Show an experiment",
    response_model=ExperimentShown,
    response_description="The analysis.",
    responses=problems(404),
)
async def show_experiment(experiment_name: _Name, services: TheServices) -> ExperimentShown:
    """Returns what the arms came to: their differences with intervals that hold at every look, and what is wrong.

    The analysis is at most 15 seconds old. Needs the permission `definitions:read`.
    """
    data: dict[str, Any] = (await services.experiments.show(experiment_name)).data()
    for each in data["comparisons"]:
        each["over_time"] = [dict(zip(PointShown.model_fields, point, strict=True)) for point in each["over_time"]]
    return ExperimentShown.model_validate(data)


@router.post(
    "/experiments/{experiment_name}/promote", summary="Promote an arm", responses=problems(404, 409, body=True), **_ENDED
)
async def promote_arm(experiment_name: _Name, body: PromoteArm, services: TheServices) -> ExperimentRow:
    """Lets an arm's policy decide all sessions that begin from now on; earlier sessions keep their arm. Idempotent.

    Needs the permission `definitions:write`.
    """
    return _row(await services.experiments.promote(experiment_name, body.arm))


@router.post(
    "/experiments/{experiment_name}/rollback",
    summary="Roll an experiment back",
    responses=problems(404, 409, body=True),
    **_ENDED,
)
async def roll_back_experiment(experiment_name: _Name, body: RollBackExperiment, services: TheServices) -> ExperimentRow:
    """Lets the control decide in all sessions of the experiment at once, and the app's policy in new ones. This is final.

    Needs the permission `definitions:write`.
    """
    return _row(await services.experiments.roll_back(experiment_name, body.reason))


@router.post("/experiments/{experiment_name}/stop", summary="Stop an experiment", responses=problems(404, 409), **_ENDED)
async def stop_experiment(experiment_name: _Name, services: TheServices) -> ExperimentRow:
    """Takes no more sessions into the experiment. Earlier sessions keep their arm, and can be analysed. Idempotent.

    Needs the permission `definitions:write`.
    """
    return _row(await services.experiments.stop(experiment_name))


@router.get(
    "/shadow",
    summary="Compare the shadow",
    response_model=PairedShown,
    response_description="The comparison.",
    responses=problems(404),
)
async def compare_shadow(services: TheServices) -> PairedShown:
    """Compares the policy with its shadow on the messages that both decided, outside of experiments.

    Reads all decisions with a shadow. Needs the permission `definitions:read`.
    """
    return PairedShown.model_validate((await services.experiments.shadow()).data())


def _row(record: ExperimentRecord) -> ExperimentRow:
    """Returns an experiment as the API shows it."""
    experiment = record.experiment
    return ExperimentRow(
        name=record.name,
        state=record.state,
        unit=experiment.unit,
        metric=experiment.metric,
        arms=[ArmShown(name=arm.name, weight=arm.weight, policy=arm.policy) for arm in experiment.arms],
        started_at=record.started_at,
        started_by=record.started_by,
        ended_at=record.ended_at,
        promoted=record.promoted,
        reason=record.reason,
        actor=record.actor,
    )
