"""Agents that think with a model and act with tools."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from turnwise.agents.function import make_card
from turnwise.agents.llm.design import Design, Instructions
from turnwise.agents.llm.loop import LlmRun
from turnwise.agents.llm.output import OutputTool
from turnwise.agents.llm.summary import KIND, summed_up
from turnwise.agents.members import members_of
from turnwise.facts.cards import AgentCard
from turnwise.facts.errors import AgentDefinitionError
from turnwise.facts.events import Actions, Event
from turnwise.models.by_name import Spec, model_of
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
from turnwise.ports.jobs import LogPages
from turnwise.ports.stores import BackgroundJob
from turnwise.ports.tool import Tool, Toolset
from turnwise.tools.function import FunctionTool
from turnwise.tools.names import OF_AGENTS
from turnwise.transcript.view import Budget

HISTORY = Budget(tokens=24_000, events=200)
"""How much a model is sent: instructions, tools, and as much of the conversation as they leave room for."""
RESULT_CHARACTERS = 20_000
"""How much of a tool's result a model is shown."""
OUTPUT_RETRIES = 2
"""How often a model may try again to give an answer of the wanted type."""


class LlmAgent:
    """An agent whose turn is a loop: the model answers, its tool calls are made, it reads the results, until it is done.

    model: a name such as `openai:gpt-5`, an endpoint, a Model, or a list of which the first that answers counts. It is sent
    the conversation as this agent saw it, never another session's, as far as `history` reaches.
    instructions: a text in which `{key}` stands for what the state holds (`{user:name}`, `{app:shop}`; `{key?}` may be
    missing, `{{key}}` is that text itself), and `{artifact.name}` for the text of an artifact; or a function of the context,
    sync or async, whose text is taken as it is.
    tools: Tools, Toolsets, and plain functions. What one gives is shown to the model up to `result_characters`; one that
    fails tells the model why.
    output_type: a type that pydantic knows. The answer is then data of that type (`DataPart` named `output`), and a model
    that gives something else is told what is wrong, `output_retries` times. str and None: the answer is text.
    output_key: the state key that gets the answer. settings: passed on to the provider. max_steps: how often the model is
    asked in one run; None = limits.steps. summary_model: sums up, after the turn, what soon does not fit any more.
    names_next: tells the model its colleagues, and how to name the next. callers_tools: whether it may call what
    callers offer with their messages. children: the agents below it. card: any other field of AgentCard.

    Raises AgentDefinitionError, and ConfigError for a model or a function that cannot be used.
    """

    def __init__(
        self,
        name: str,
        *,
        model: Spec,
        description: str = "",
        instructions: Instructions = "",
        tools: Sequence[Tool | Toolset | Callable[..., Any]] = (),
        output_type: Any = None,
        output_key: str | None = None,
        output_retries: int = OUTPUT_RETRIES,
        settings: Mapping[str, JsonValue] | None = None,
        max_steps: int | None = None,
        history: Budget = HISTORY,
        result_characters: int = RESULT_CHARACTERS,
        summary_model: Spec | None = None,
        names_next: bool = False,
        callers_tools: bool = True,
        children: Sequence[Agent] = (),
        **card: Any,
    ) -> None:
        self.card = make_card({"name": name, "description": description, "kind": "llm", **card})
        self.children = members_of(self.card.name, children)
        given = [_tool(each, name) for each in tools]
        _check(name, 1, max_steps=max_steps, result_characters=result_characters, **history._asdict())
        _check(name, 0, output_retries=output_retries)
        self._design = Design(
            model=model_of(model),
            instructions=instructions,
            tools=_distinct([each for each in given if _is_tool(each)], name),
            toolsets=[each for each in given if not _is_tool(each)],
            output=None if output_type in (None, str) else OutputTool(output_type, name),
            output_key=output_key,
            output_retries=output_retries,
            settings=dict(settings or {}),
            max_steps=max_steps,
            history=history,
            summary_model=None if summary_model is None else model_of(summary_model),
            names_next=names_next,
            callers_tools=callers_tools,
            result_characters=result_characters,
        )

    def __repr__(self) -> str:
        return f"LlmAgent({self.card.name!r})"

    @property
    def model(self) -> str:
        """The name of its model; of a list, all names."""
        return self._design.model.name

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        await LlmRun(self._design, context).run()  # which says all of it once, and finds it again
        return
        yield

    async def do_job(self, job: BackgroundJob, log: LogPages) -> Actions | None:
        """Makes the summary that a turn asked for. None when it is there, or this agent makes none any more. ModelError."""
        if self._design.summary_model is None or job.request.kind != KIND:
            return None
        return await summed_up(self._design.summary_model, job, log, self._design.history)

    async def close(self) -> None:
        """Gives up what its toolsets hold; a later use opens it anew."""
        await asyncio.gather(*(toolset.close() for toolset in self._design.toolsets))


def _check(agent: str, least: int, **numbers: int | None) -> None:
    for field, value in numbers.items():
        if value is not None and value < least:
            raise AgentDefinitionError(f"Agent {agent!r}: {field} is {value}.", fix=f"Use {least} or more.")


def _tool(given: Any, agent: str) -> Any:
    """The tool or toolset that was given, or made of a function."""
    if _is_tool(given) or callable(getattr(given, "tools", None)):
        return given
    if isinstance(getattr(given, "card", None), AgentCard):
        raise AgentDefinitionError(f"Agent {agent!r}: agent {given.card.name!r} is no tool.", fix="Give AgentTool(name).")
    if callable(given):
        return FunctionTool(given)
    raise AgentDefinitionError(
        f"Agent {agent!r}: a {type(given).__name__} is no tool.", fix="Give a Tool, a Toolset, or a function."
    )


def _is_tool(given: Any) -> bool:
    return hasattr(given, "spec") and hasattr(given, "rules") and callable(getattr(given, "run", None))


def _distinct(tools: Sequence[Any], agent: str) -> Sequence[Tool]:
    names: set[str] = set()
    for tool in tools:
        name = tool.spec.name
        if name in OF_AGENTS:
            raise AgentDefinitionError(
                f"Agent {agent!r}: the tool name {name!r} is reserved for {OF_AGENTS[name]}.", fix="Rename the tool."
            )
        if name in names:
            raise AgentDefinitionError(f"Agent {agent!r} has two tools named {name!r}.", fix="Rename one of them.")
        names.add(name)
    return tools
