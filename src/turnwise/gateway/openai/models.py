"""Models: `turnwise`, which selects an agent for each message, and each agent that the caller may address directly."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from turnwise.facts.errors import NothingHere
from turnwise.facts.tree import NAME_CHARACTERS
from turnwise.gateway.front import TheFront, TheServices
from turnwise.gateway.openai.errors import refusals
from turnwise.gateway.services import Services

SELECTING_MODEL = "turnwise"
"""The model that selects an agent. An agent with the same name cannot be addressed directly."""

router = APIRouter(tags=["openai"])


class Model(BaseModel):
    """A model: `turnwise` or an agent. `id` is the agent's name, `owned_by` the app's."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str
    shutdown_date: str | None = None


class Models(BaseModel):
    """A list of models."""

    object: Literal["list"] = "list"
    data: list[Model]


def agent_of_model(services: Services, model: str) -> str | None:
    """Returns the agent that the model names; None for `turnwise`, which selects one.

    Raises:
        NothingHere: There is no such agent, or the caller may not address it.
    """
    if model == SELECTING_MODEL:
        return None
    if not services.addressees.has(model):
        raise _missing(model)
    return model


@router.get("/models", operation_id="list_models", responses=refusals())
async def list_models(front: TheFront, services: TheServices) -> Models:
    """Lists the values for `model`: `turnwise`, and the agents that the caller may address directly."""
    names = (SELECTING_MODEL, *(name for name in services.addressees.names() if name != SELECTING_MODEL))
    return Models(data=[Model(id=name, owned_by=front.runner.app) for name in names])


@router.get("/models/{model:path}", operation_id="get_model", responses=refusals(404))
async def get_model(model: str, front: TheFront, services: TheServices) -> Model:
    """Returns one model."""
    if model != SELECTING_MODEL and model not in services.addressees.names():
        raise _missing(model)
    return Model(id=model, owned_by=front.runner.app)


def _missing(model: str) -> NothingHere:
    return NothingHere(f"There is no model {model[:NAME_CHARACTERS]!r} for you.", fix="See GET /v1/models.", where=("model",))
