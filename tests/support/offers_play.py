"""How tests offer tools of a caller, and answer the calls of them."""

from typing import Any

from llm_play import answering
from runner_play import ask, key

from turnwise import MessageContext, Runner
from turnwise.agents.llm import LlmAgent
from turnwise.facts.messages import OfferedTool
from turnwise.facts.waits import Wait, open_waits
from turnwise.ports.model import ModelRequest
from turnwise.runner import Result
from turnwise.testing.models import ScriptedModel, calls

CITY: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SHOW = OfferedTool(name="show_map", description="Shows a map to the user.", parameters=CITY)
PICK = OfferedTool(name="pick_file", description="Lets the user choose a file.")


def desk(*replies: Any, **options: Any) -> tuple[LlmAgent, ScriptedModel]:
    """An agent whose model gives these replies, and its model."""
    model = ScriptedModel(*replies)
    return LlmAgent("desk", model=model, **options), model


def offering(*tools: OfferedTool, **known: Any) -> MessageContext:
    """What is known of a message that these tools come with; SHOW and PICK when none are named."""
    return MessageContext(tools=tools or (SHOW, PICK), **known)


def shows(city: str = "Bonn") -> Any:
    """A model's call of SHOW."""
    return calls("show_map", {"city": city})


def names(request: ModelRequest) -> list[str]:
    """The tools that a model was shown."""
    return [tool.name for tool in request.tools]


async def awaited(runner: Runner) -> list[Wait]:
    """The open calls of all that waits in the session, oldest invocation first."""
    waiting = dict.fromkeys(id_ for id_, _, _ in reversed((await runner.sessions.get(key())).head.waiting()))
    found = [open_waits(await runner.sessions.events(key(), invocation_id=id_)) for id_ in waiting]
    return [call for calls_ in found for call in calls_]


async def answer(runner: Runner, result: Any = "shown", *, place: int = 0, **options: Any) -> Result:
    """What comes of that result of the open call at that place."""
    open_ = (await awaited(runner))[place]
    return await ask(runner, answering(open_.id, result), **options)
