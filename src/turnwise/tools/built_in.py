"""Built-in tools: transfer to another agent (behaviours A35 to A40), questions to the user, artifacts, and agents as tools."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field, JsonValue

from turnwise.facts.errors import AgentFailed, AgentTimeout, ArtifactError, ConfigError, ToolFailed, TransferRefused
from turnwise.facts.tree import AgentTree
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
from turnwise.ports.stores import Artifact
from turnwise.ports.tool import Tool, ToolCall, ToolRules
from turnwise.tools.function import FunctionTool, tool
from turnwise.tools.names import TRANSFER, tool_name

_DESCRIPTION = """\
Hands the conversation to another agent, who answers from then on. Use it when one of these fits the request better:
"""
_RULES = ToolRules(recorded=False, last=True, private=True)


def transfer_tool(context: AgentContext) -> Tool | None:
    """Returns the transfer tool of this agent, or None if there is no target.

    It lists agents that are not available now, too: a call is then refused. The tool therefore stays the same from turn to
    turn.
    """
    targets = context.transfer_candidates
    return _tool_for(targets, _described(context, targets)) if targets else None


@lru_cache(maxsize=256)
def _tool_for(targets: Sequence[str], description: str) -> Tool:
    """Returns the transfer tool for these targets."""

    async def transfer(
        agent: Annotated[str, Field(description="Who is to answer.", json_schema_extra={"enum": list(targets)})],
        context: AgentContext,
        message: Annotated[
            str | None,
            Field(description="The text to answer instead of the user's message. Leave it out as a rule."),
        ] = None,
    ) -> str:
        try:
            await context.transfer(agent, message=message or None)
        except TransferRefused as refused:
            raise ToolFailed(refused.problem, fix=refused.fix) from None
        return f"{agent} takes over."

    return FunctionTool(transfer, name=TRANSFER, description=description, rules=_RULES)


def transfer_description(context: AgentContext) -> str:
    """Returns the tool's description, with the current targets and their descriptions."""
    return _described(context, context.transfer_targets)


def _described(context: AgentContext, targets: Sequence[str]) -> str:
    return _DESCRIPTION + "\n".join(_target_line(name, context.tree.card(name).description) for name in targets)


def _target_line(name: str, description: str) -> str:
    return f"- {name}: {' '.join(description.split())}" if description else f"- {name}"


@tool(
    recorded=False,
    last=True,
    description="Asks the user a question and returns the reply. Use it when you cannot go on without something that only "
    "the user knows.",
)
async def ask_user(
    question: Annotated[str, Field(min_length=1, description="The question, as the user reads it.")], context: AgentContext
) -> str:
    return (await context.ask(question)).text


CHARACTERS = 20_000
NAMES_SHOWN = 200

_Name = Annotated[
    str, Field(description="Its name, such as 'report.txt'. All sessions of the user share names that begin with 'user:'.")
]


class ArtifactTools:
    """A toolset for the session's artifacts. Without an artifact store, every call fails with that reason.

    Args:
        characters: The most characters of a text that one call returns.
        saving: Adds the tool that saves artifacts.
    """

    def __init__(self, *, characters: int = CHARACTERS, saving: bool = True) -> None:
        if characters < 1:
            raise ConfigError(f"Artifacts cannot be read in pieces of {characters} characters.", fix="Give 1 or more.")
        self._tools: tuple[Tool, ...] = (list_artifacts, _load_tool(characters), *([save_artifact] if saving else []))

    async def tools(self, context: AgentContext) -> Sequence[Tool]:
        return self._tools

    async def close(self) -> None:
        """Does nothing: the toolset holds no resources."""


@tool(description="Lists the files of this conversation.")
async def list_artifacts(context: AgentContext) -> dict[str, Any]:
    try:
        infos = await context.artifacts.list()
    except (ArtifactError, ConfigError) as error:
        raise ToolFailed(str(error)) from None
    result: dict[str, Any] = {"artifacts": [info._asdict() for info in infos[:NAMES_SHOWN]]}
    if len(infos) > NAMES_SHOWN:
        result["not_listed"] = len(infos) - NAMES_SHOWN
    return result


@tool(description="Saves text as a file of this conversation, as a new version if there is one of that name.")
async def save_artifact(
    name: _Name,
    text: Annotated[str, Field(description="All of its text.")],
    context: AgentContext,
    mime_type: str = "text/plain",
) -> dict[str, Any]:
    try:
        return (await context.artifacts.save(name, text.encode(), mime_type=mime_type))._asdict()
    except UnicodeEncodeError as error:
        raise ToolFailed(f"The text cannot be saved: {error}.") from None
    except (ArtifactError, ConfigError) as error:
        raise ToolFailed(str(error)) from None


def _load_tool(characters: int) -> Tool:
    """Returns the tool that reads an artifact, at most that many characters at a time."""

    @tool(description=f"Reads a file of this conversation: its text, at most {characters:,} characters at once.")
    async def load_artifact(
        name: _Name,
        context: AgentContext,
        version: Annotated[int | None, Field(ge=1, description="Which version; the latest if left out.")] = None,
        start: Annotated[int, Field(ge=0, description="The character to begin with.")] = 0,
    ) -> dict[str, Any]:
        try:
            artifact = await context.artifacts.load(name, version=version)
        except (ArtifactError, ConfigError) as error:
            raise ToolFailed(str(error)) from None
        if artifact is None:
            which = f"version {version} of {name!r}" if version else f"artifact {name!r}"
            raise ToolFailed(f"There is no {which}.", fix="list_artifacts says what there is.")
        return {**artifact.info._asdict(), **_read_artifact(artifact, start, characters)}

    return load_artifact


def _read_artifact(artifact: Artifact, start: int, characters: int) -> dict[str, Any]:
    """Returns a section of an artifact's text, and where the next one starts."""
    text = _text_in(artifact.data)
    if text is None:
        return {"note": "This is no text and cannot be shown."}
    rest = len(text) - start - characters
    result: dict[str, Any] = {"text": text[start : start + characters]}
    return {**result, "next_start": start + characters} if rest > 0 else result


def _text_in(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


ASK_PREFIX = "ask_"
AGENTS_SHOWN = 20


class AgentTool:
    """Lets the model call another agent of the app. The result is that agent's answer; the calling agent stays active.

    The tool's name is `ask_` and the agent's name, adapted to the rules for tool names.

    Args:
        agent: The agent or its name.
        description: The purpose that the model reads; by default the agent's description, if the agent itself is given.
    """

    def __init__(self, agent: str | Agent, *, description: str | None = None) -> None:
        self._agent = agent if isinstance(agent, str) else agent.card.name
        purpose = (None if isinstance(agent, str) else agent.card.description) if description is None else description
        self._tool = FunctionTool(
            self._ask,
            name=tool_name(self._agent, ASK_PREFIX),
            description=" ".join(filter(None, [f"Asks the agent {self._agent!r} and returns its answer.", purpose])),
            rules=ToolRules(recorded=False),
        )
        self.spec, self.rules = self._tool.spec, self._tool.rules

    def __repr__(self) -> str:
        return f"AgentTool({self._agent!r})"

    def check_call(self, call: ToolCall) -> None:
        self._tool.check_call(call)

    async def run(self, call: ToolCall) -> JsonValue:
        return await self._tool.run(call)

    async def _ask(
        self,
        message: Annotated[str, Field(min_length=1, description="What it is asked, with all that it needs to know.")],
        call: ToolCall,
    ) -> str:
        context = call.context
        reachable = _reachable(context)
        if self._agent not in reachable:
            problem = "cannot be reached here" if self._agent in context.tree else "does not exist"
            others = [name for name in reachable if name != context.card.name][:AGENTS_SHOWN]
            raise ToolFailed(f"The agent {self._agent!r} {problem}.", fix=f"There are: {', '.join(others) or 'no others'}.")
        try:
            return (await context.call(self._agent, message, segment=call.id)).text
        except (AgentFailed, AgentTimeout) as error:
            raise ToolFailed(f"The agent {self._agent!r} gave no answer: {error}") from error


def _reachable(context: AgentContext) -> list[str]:
    tree: AgentTree = context.tree
    return [card.name for card in tree if tree.reachable(card.name, context.message_context.roles)]
