"""Models: the front door, which selects who answers, and each agent that the caller can address past it."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from turnwise.facts.callers import Caller
from turnwise.facts.cards import NAME_CHARACTERS
from turnwise.facts.errors import NothingHere
from turnwise.gateway.front import Front, TheCaller, TheFront
from turnwise.gateway.openai.errors import refusals

FRONT_DOOR = "turnwise"
"""The model that stands for all agents. An agent of that name is not addressed by it."""

router = APIRouter(tags=["openai"])


class Model(BaseModel):
    """id: the agent's name. owned_by: the app."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str
    shutdown_date: str | None = None


class Models(BaseModel):
    object: Literal["list"] = "list"
    data: list[Model]


def addressee(front: Front, caller: Caller, model: str) -> str | None:
    """The agent that the model stands for; None = whoever is selected. NothingHere when the caller reaches none of that name,
    whether there is one or not.
    """
    if model == FRONT_DOOR:
        return None
    if not front.addressees.has(caller, model):
        raise _missing(model)
    return model


@router.get("/models", responses=refusals())
async def list_models(front: TheFront, caller: TheCaller) -> Models:
    """What may stand as `model`."""
    names = (FRONT_DOOR, *(name for name in front.addressees.names(caller) if name != FRONT_DOOR))
    return Models(data=[Model(id=name, owned_by=front.runner.app) for name in names])


@router.get("/models/{model:path}", responses=refusals(404))
async def get_model(model: str, front: TheFront, caller: TheCaller) -> Model:
    """One of them."""
    if model != FRONT_DOOR and model not in front.addressees.names(caller):
        raise _missing(model)
    return Model(id=model, owned_by=front.runner.app)


def _missing(model: str) -> NothingHere:
    return NothingHere(f"There is no model {model[:NAME_CHARACTERS]!r} for you.", fix="See GET /v1/models.", where=("model",))
