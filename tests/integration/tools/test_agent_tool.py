from collections.abc import Awaitable, Callable
from typing import Any

from tool_play import called, turn

from turnwise import AgentContext, MessageContext, agent
from turnwise.facts.errors import ToolFailed
from turnwise.ports.tool import Tool
from turnwise.tools.built_in import AgentTool


@agent(name="Größe", description="Knows sizes.")
async def sizes(message: str) -> str:
    return f"{message} is 42"


@agent(roles=["staff"])
def vault() -> str:
    return "secret"


@agent
def broken() -> str:
    raise KeyError("size")


CHILDREN = [sizes, vault, broken]


def told_by(tool: Tool, **arguments: Any) -> tuple[list[str], Callable[[AgentContext], Awaitable[str]]]:
    """What the tool tells the model, and the work that calls it."""
    told: list[str] = []

    async def work(context: AgentContext) -> str:
        try:
            told.append(str(await called(tool, context, **arguments)))
        except ToolFailed as failed:
            told.append(str(failed))
        return told[0]

    return told, work


def test_how_the_model_sees_it() -> None:
    """A16: tools' names are made of agents' names."""
    tool = AgentTool(sizes)
    assert tool.spec.name.startswith("ask_Grosse_")
    assert tool.spec.description == "Asks the agent 'Größe' and returns its answer. Knows sizes."
    assert list(tool.spec.parameters["properties"]) == ["message"]  # type: ignore[arg-type]
    assert AgentTool("Größe").spec.name == tool.spec.name
    assert AgentTool("Größe", description="Shoes.").spec.description.endswith("answer. Shoes.")
    assert (tool.rules.recorded, repr(tool)) == (False, "AgentTool('Größe')")


async def test_the_answer_is_the_result_and_the_floor_stays() -> None:
    _, work = told_by(AgentTool("Größe"), message="a shoe")
    result = await turn(work, CHILDREN)
    assert result.text == "a shoe is 42"
    assert [(e.author, e.is_private) for e in result.events if e.text][-2:] == [("Größe", True), ("desk", False)]


async def test_the_call_has_the_calls_id_on_the_branch() -> None:
    async def work(context: AgentContext) -> str:
        tool = AgentTool("Größe")
        await called(tool, context, id="call-a", message="a")
        return str(await called(tool, context, id="call-b", message="b"))

    result = await turn(work, CHILDREN)
    assert result.text == "b is 42"
    branches = [e.branch.partition("/")[2] for e in result.events if e.author == "Größe" and e.text]
    assert branches == [">Größe#call-a", ">Größe#call-b"]


async def test_who_cannot_be_reached_is_told_with_who_can() -> None:
    for name, words in (("nobody", "does not exist"), ("vault", "cannot be reached here")):
        told, work = told_by(AgentTool(name), message="hello")
        await turn(work, CHILDREN)
        assert told == [f"The agent {name!r} {words}. There are: Größe, broken."]


async def test_roles_open_the_way() -> None:
    told, work = told_by(AgentTool("vault"), message="hello")
    await turn(work, CHILDREN, context=MessageContext(roles=("staff",)))
    assert told == ["secret"]


async def test_an_agent_that_fails_is_a_result() -> None:
    told, work = told_by(AgentTool("broken"), message="hello")
    result = await turn(work, CHILDREN)
    assert "The agent 'broken' gave no answer: Agent 'broken' raised KeyError" in told[0]
    assert result.end is not None
    assert result.end.reason == "completed"


async def test_an_empty_message_is_refused() -> None:
    told, work = told_by(AgentTool("Größe"), message="")
    await turn(work, CHILDREN)
    assert "'message'" in told[0]
