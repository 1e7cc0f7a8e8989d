"""Adapter for agents of Google's Agent Development Kit (ADK)."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

from pydantic_core import from_json, to_jsonable_python

from turnwise.agents.adapters.adapter import (
    HISTORY,
    PieceWriter,
    ResumedRun,
    Targets,
    TurnAnswer,
    card_of,
    error_text,
    model_error,
    not_an_agent,
    read_conversation,
    require_library,
    resolved,
    take_turn,
    text_parts,
    too_many_steps,
    usable_parts,
)
from turnwise.agents.members import members_of
from turnwise.facts.content import BlobPart, Content, DataPart, Part, TextPart
from turnwise.facts.errors import AgentFailed, ModelAnswerInvalid, ModelRefused, ModelUnavailable, TurnwiseError
from turnwise.facts.events import Event
from turnwise.facts.fact import replaced
from turnwise.facts.usage import Usage
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
from turnwise.transcript.view import Budget

APP = "turnwise"
TRANSFER = "hand_over"
"""The name of the tool that transfers. `transfer_to_agent` is the ADK's own, for sub-agents."""

_REFUSALS = frozenset({"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "LANGUAGE"})
_TRANSIENT = frozenset({"RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "429", "500", "503", "504"})


class GoogleAdkAgent:
    """An ADK agent or workflow, including its sub-agents, tools, callbacks and plugins.

    Each turn runs in a fresh in-memory ADK session that holds the conversation; the log is ours. The answer is the last
    final response. With an output schema, it is a DataPart named `output`.

    Args:
        agent: The ADK agent or workflow.
        name: By default the agent's name.
        description: By default the agent's description.
        state: The initial state of the ADK session, or a function of the AgentContext, sync or async, that returns it.
        run_config: The ADK's RunConfig. The adapter sets its streaming mode.
        plugins: Plugins for the ADK's Runner.
        artifact_service: As for the ADK's Runner.
        memory_service: As for the ADK's Runner.
        credential_service: As for the ADK's Runner.
        hands_over: Adds the tool `hand_over`, which transfers to the agent's transfer targets, to every LLM agent of the
            run. The run ends with that call.
        history: The budget of the conversation.
        children: The agents below this one.
        card: Other fields of AgentCard.

    Raises:
        ConfigError: The ADK is not installed or too old.
        AgentDefinitionError: The object is not an ADK agent or workflow.
    """

    def __init__(
        self,
        agent: Any,
        *,
        name: str | None = None,
        description: str | None = None,
        state: Any = None,
        run_config: Any = None,
        plugins: Sequence[Any] = (),
        artifact_service: Any = None,
        memory_service: Any = None,
        credential_service: Any = None,
        hands_over: bool = False,
        history: Budget = HISTORY,
        children: Sequence[Agent] = (),
        **card: Any,
    ) -> None:
        require_library("google.adk", "google-adk", "adk", (2, 13))
        from google.adk.workflow import BaseNode

        if not isinstance(agent, BaseNode):
            raise not_an_agent(agent, "an agent or a workflow of the ADK")
        self.card = card_of(agent, name, description, card)
        self.children = members_of(self.card.name, children)
        self._agent, self._state, self._run_config, self._history = agent, state, run_config, history
        self._plugins, self._hands_over = list(plugins), hands_over
        self._services = {
            "artifact_service": artifact_service,
            "memory_service": memory_service,
            "credential_service": credential_service,
        }

    def __repr__(self) -> str:
        return f"GoogleAdkAgent({self.card.name!r})"

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        """Runs one turn of the ADK agent. Yields nothing: `take_turn` records the answer."""

        async def work(writer: PieceWriter, _: ResumedRun | None) -> TurnAnswer:
            return await self._answer(context, writer)

        await take_turn(context, work, self._explain)
        return
        yield

    async def close(self) -> None:
        """Closes the toolsets and plugins of the agent."""
        await self._runner().close()

    def _runner(self, *more: Any) -> Any:
        """Returns a new runner of the ADK, with the configured plugins and these."""
        from google.adk.apps import App
        from google.adk.runners import Runner
        from google.adk.sessions import InMemorySessionService

        app = App(name=APP, root_agent=self._agent, plugins=[*self._plugins, *more])
        return Runner(app=app, session_service=InMemorySessionService(), **self._services)

    async def _answer(self, context: AgentContext, writer: PieceWriter) -> TurnAnswer:
        """Gives the ADK a new session with the conversation, runs its agent, and returns the answer."""
        targets = Targets.of(context) if self._hands_over else None
        runner = self._runner() if targets is None else self._runner(_transfer_plugin(targets))
        session = await runner.session_service.create_session(
            app_name=APP,
            user_id=context.session.user,
            session_id=context.session.id,
            state=await resolved(self._state, context),
        )
        messages = (await read_conversation(context, self._history)).messages
        for message in messages[:-1]:
            await runner.session_service.append_event(session, self._event(message))
        run_events = _RunEvents(self.card.name, writer)
        events = runner.run_async(
            user_id=session.user_id,
            session_id=session.id,
            new_message=_content(messages[-1]),
            run_config=self._config(streaming=context.config.streaming),
        )
        async with aclosing(events):
            async for event in events:
                await run_events.add(event)
                if targets is not None and targets.chosen is not None and not event.partial:
                    return TurnAnswer(usage=run_events.usage, target=targets.chosen)
        return run_events.answer(has_schema=_schema(run_events.author, self._agent) is not None)

    def _config(self, *, streaming: bool) -> Any:
        from google.adk.agents.run_config import RunConfig, StreamingMode

        mode = StreamingMode.SSE if streaming else StreamingMode.NONE
        return replaced(self._run_config or RunConfig(), streaming_mode=mode)

    def _event(self, message: Content) -> Any:
        from google.adk.events import Event as TheirEvent

        return TheirEvent(author="user" if message.role == "user" else self._agent.name, content=_content(message))

    def _explain(self, error: Exception) -> TurnwiseError:
        from google.adk.agents.invocation_context import LlmCallsLimitExceededError

        if isinstance(error, LlmCallsLimitExceededError):
            return too_many_steps(self.card.name, error, f"max_llm_calls in the run_config of agent {self.card.name!r}")
        return model_error(self.card.name, error)


def _transfer_plugin(targets: Targets) -> Any:
    """Returns a plugin that offers the transfer tool in every request to a model."""
    from google.adk.plugins import BasePlugin
    from google.adk.tools import BaseTool
    from google.genai import types

    class TransferTool(BaseTool):  # type: ignore[misc, unused-ignore]
        def _get_declaration(self) -> Any:
            schema = targets.schema()
            return types.FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=schema)

        async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> dict[str, str]:
            problem = targets.choose(args.get("agent"), args.get("message"))
            if problem is not None:
                return {"error": problem}
            tool_context.actions.skip_summarization = True  # no model is asked about the result
            return {"result": f"{args['agent']} takes over."}

    class TransferPlugin(BasePlugin):  # type: ignore[misc, unused-ignore]
        async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
            llm_request.append_tools([TransferTool(name=TRANSFER, description=targets.description)])

    return TransferPlugin(name="turnwise_transfer")


class _RunEvents:
    """Collects the events of one ADK run."""

    def __init__(self, agent: str, writer: PieceWriter) -> None:
        self.author = ""
        self._agent, self._writer = agent, writer
        self._answers: dict[str, int] = {}
        self._final: Any = None
        self.usage: Usage | None = None
        self._waits: list[str] = []
        self._problem: Any = None

    async def add(self, event: Any) -> None:
        """Streams the chunks and stores the final response."""
        place = self._answers.setdefault(event.author, 0)
        if event.partial:
            await self._writer.piece(_text(event), f"{event.author}#{place}")
            return
        self._answers[event.author] = place + 1
        if event.usage_metadata is not None:
            one = _usage(event)
            self.usage = one if self.usage is None else self.usage + one
        if event.error_code and not _text(event):
            self._final, self._problem = None, event  # an exception, if any, follows after the last event
        if event.long_running_tool_ids:
            self._waits += [call.name for call in event.get_function_calls() if call.id in event.long_running_tool_ids]
        elif event.is_final_response() and event.content is not None and event.content.parts:
            self._final, self.author = event, event.author

    def answer(self, *, has_schema: bool) -> TurnAnswer:
        """Returns the answer.

        Raises:
            ModelError: A model failed, or its answer does not fit the output schema.
            AgentFailed: Tools wait for a result.
        """
        if self._final is None:
            if self._problem is not None:
                raise _model_error(self._agent, self._problem)
            if self._waits:
                raise AgentFailed(
                    f"Agent {self._agent!r} waits for the results of {', '.join(self._waits)}, which nobody can give it here.",
                    fix="Let its tools return their results, or use a Turnwise LlmAgent with tools that wait.",
                )
            return TurnAnswer(usage=self.usage)
        if has_schema:
            try:
                return TurnAnswer((DataPart(name="output", data=from_json(_text(self._final))),), self.usage)
            except ValueError:
                raise ModelAnswerInvalid(f"Agent {self._agent!r} gave no JSON, though it has an output schema.") from None
        return TurnAnswer(_parts(self._final), self.usage)


def _schema(author: str, root: Any) -> Any:
    """Returns the output schema of the agent that answered, or None."""
    find_agent = getattr(root, "find_agent", None)
    author_agent = find_agent(author) if find_agent is not None and author else None
    return getattr(author_agent, "output_schema", None)


def _model_error(agent: str, event: Any) -> TurnwiseError:
    """Returns our error for an error code of the agent's model."""
    code = str(event.error_code).removeprefix("FinishReason.").upper()
    if code in _REFUSALS:
        return ModelRefused(f"Agent {agent!r}: its model refused to answer: {code}.", fix="Ask in other words.")
    if code in _TRANSIENT:
        return ModelUnavailable(f"Agent {agent!r}: a model is not available: {code}.", fix="Try again later.")
    if code == "MAX_TOKENS":
        return ModelAnswerInvalid(f"Agent {agent!r}: its model ran into its limit of tokens.", fix="Raise max_output_tokens.")
    return AgentFailed(f"Agent {agent!r} got the error {code} of its model: {error_text(Exception(event.error_message or ''))}")


def _text(event: Any) -> str:
    """Returns the text of an event, without thoughts."""
    parts = (event.content.parts if event.content else None) or ()
    return "".join(part.text for part in parts if part.text and not part.thought)


def _parts(event: Any) -> Sequence[Part]:
    """Returns the text, files and output of a final event."""
    parts: list[Part] = [*text_parts(_text(event))]
    for part in event.content.parts:
        if part.inline_data is not None and part.inline_data.data is not None:
            inline = part.inline_data
            parts.append(
                BlobPart(data=inline.data, mime_type=inline.mime_type or BlobPart(data=b"").mime_type, name=inline.display_name)
            )
    if not parts and event.output is not None:
        parts.append(
            TextPart(text=event.output)
            if isinstance(event.output, str)
            else DataPart(name="output", data=to_jsonable_python(event.output))
        )
    return parts


def _content(message: Content) -> Any:
    """Returns a message in the ADK's form."""
    from google.genai import types

    return types.Content(
        role="user" if message.role == "user" else "model",
        parts=[
            types.Part(text=piece)
            if isinstance(piece, str)
            else types.Part(inline_data=types.Blob(data=piece.data, mime_type=piece.mime_type))
            for piece in usable_parts(message)
        ],
    )


def _usage(event: Any) -> Usage:
    """Returns the token counts of an event."""
    counted = event.usage_metadata
    model = event.model_version or ""
    return Usage(
        model=f"google:{model}" if model.startswith("gemini") else model,
        input_tokens=counted.prompt_token_count or 0,
        cached_tokens=counted.cached_content_token_count or 0,
        output_tokens=(counted.candidates_token_count or 0) + (counted.thoughts_token_count or 0),
    )
