"""Adapter for LangGraph graphs."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote

from pydantic import JsonValue
from pydantic_core import to_jsonable_python

from turnwise.agents.adapters.adapter import (
    HISTORY,
    NO_TARGETS,
    PieceWriter,
    ResumedRun,
    Target,
    Targets,
    TurnAnswer,
    card_of,
    joined,
    model_error,
    new_message,
    not_an_agent,
    read_conversation,
    require_library,
    resolved,
    take_turn,
    text_parts,
    too_many_steps,
    transfer_schema,
    usable_parts,
)
from turnwise.agents.members import members_of
from turnwise.facts.content import BlobPart, Content, DataPart, Part, TextPart
from turnwise.facts.errors import AgentDefinitionError, AgentFailed, TurnwiseError
from turnwise.facts.events import Event
from turnwise.facts.usage import Usage
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
from turnwise.tools.names import TRANSFER
from turnwise.transcript.view import Budget, as_text

_DEFAULT_NAME = "LangGraph"
_TOOL = """\
Hands the conversation to another agent, who answers from then on. The user's message names the agents that can take over.
"""


class _Outcome(NamedTuple):
    """The outcome of a graph run."""

    state: Any
    """The last state."""
    interrupts: Sequence[Any]
    """The interrupts at which the run stopped."""


class _Handover:
    """The transfer of one run: the targets, and the means to end the run."""

    def __init__(self, targets: Targets, chosen: JsonValue = None) -> None:
        from langgraph.runtime import RunControl

        self.targets = targets
        self.control = RunControl()
        if isinstance(chosen, dict):
            targets.chosen = Target(**chosen)  # type: ignore[arg-type]

    def has_ended(self, error: Exception) -> bool:
        """Checks whether the error says that the graph ended because of the transfer."""
        from langgraph.errors import GraphDrained

        return isinstance(error, GraphDrained) and self.targets.chosen is not None

    def choose(self, agent: object, message: object) -> str:
        """Stores the target, and lets the graph end after its current step. Returns the tool's result."""
        problem = self.targets.choose(agent, message)
        if problem is None:
            self.control.request_drain("transfer")
        return problem or f"{agent} takes over."


_handover: ContextVar[_Handover | None] = ContextVar("turnwise_langgraph_handover", default=None)


class LangGraphAgent:
    """A compiled LangGraph graph, including its subgraphs and agents.

    The graph gets the conversation as messages under `messages_key` of its state. The answer is the last model message
    there, or `structured_response`, which becomes a DataPart named `output`.

    Args:
        graph: The compiled graph.
        name: By default the graph's name.
        description: The card's description.
        messages_key: The state key that holds the messages.
        input: For graphs of another shape: builds the graph's input from the messages and the AgentContext.
        output: For graphs of another shape: returns the answer from the last state, a str or a JSON value.
        keeps_history: The graph has a checkpointer that stores the conversation. It then gets only the new message,
            with the words that others said since. Each session has a separate thread. An `interrupt` of the graph
            becomes a question to the user.
        config: The run's config, or a function of the AgentContext, sync or async, that returns it.
        runtime: The value of `runtime.context` in the nodes, or a function of the AgentContext that returns it.
        hands_over: The tool of `transfer_tool`, which the graph was built with, transfers to the agent's transfer
            targets. The message lists them. The graph ends after the step in which the tool was called.
        history: The budget of the conversation.
        children: The agents below this one.
        card: Other fields of AgentCard.

    Raises:
        ConfigError: LangGraph is not installed or too old. `hands_over` needs version 1.2.
        AgentDefinitionError: The object is not a compiled graph, or has no name.
    """

    def __init__(
        self,
        graph: Any,
        *,
        name: str | None = None,
        description: str = "",
        messages_key: str = "messages",
        input: Callable[[list[Any], AgentContext], Any] | None = None,
        output: Callable[[Any], Any] | None = None,
        keeps_history: bool = False,
        config: Any = None,
        runtime: Any = None,
        hands_over: bool = False,
        history: Budget = HISTORY,
        children: Sequence[Agent] = (),
        **card: Any,
    ) -> None:
        require_library("langgraph.pregel", "langgraph", "langgraph", (1, 2) if hands_over else (1,))
        from langgraph.pregel import Pregel

        if not isinstance(graph, Pregel):
            raise not_an_agent(graph, "a compiled graph of LangGraph")
        if name is None and graph.name == _DEFAULT_NAME:
            raise AgentDefinitionError("The graph has no name.", fix="Give the adapter a name, or compile the graph with one.")
        self.card = card_of(graph, name, description, card)
        self.children = members_of(self.card.name, children)
        self._graph, self._key, self._input, self._output = graph, messages_key, input, output
        self._keeps_history, self._config, self._runtime, self._history = keeps_history, config, runtime, history
        self._hands_over = hands_over

    @staticmethod
    def transfer_tool() -> Any:
        """Returns the tool that transfers the conversation, for the tools of a graph or its agents.

        It transfers in a turn of an adapter with `hands_over`. Elsewhere it says that nobody can take over.
        """
        require_library("langgraph.pregel", "langgraph", "langgraph", (1, 2))
        from langchain_core.tools import StructuredTool

        def transfer(agent: object = None, message: object = None, **_: object) -> str:
            handover = _handover.get()
            return NO_TARGETS if handover is None else handover.choose(agent, message)

        async def atransfer(**arguments: object) -> str:  # threads would run two calls in any order
            return transfer(**arguments)

        return StructuredTool.from_function(
            transfer, atransfer, name=TRANSFER, description=_TOOL, args_schema=transfer_schema(())
        )

    def __repr__(self) -> str:
        return f"LangGraphAgent({self.card.name!r})"

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        await take_turn(context, partial(self._answer, context), self._explain)
        return
        yield

    async def _answer(self, context: AgentContext, writer: PieceWriter, resumed: ResumedRun | None) -> TurnAnswer:
        """Runs the graph on the conversation, or resumes it with the reply; returns answer, question or transfer."""
        counter = _counter()
        config = dict(await resolved(self._config, context) or {})
        callbacks = config.get("callbacks") or []
        config["callbacks"] = [*callbacks, counter] if isinstance(callbacks, list) else callbacks
        if self._keeps_history:
            config["configurable"] = {"thread_id": _thread(context), **config.get("configurable", {})}
        handover = None
        if self._hands_over:
            handover = _Handover(Targets.even_none(context), resumed.checkpoint["target"] if resumed else None)
        graph_input = await self._graph_input(context, resumed, handover)
        ended = await self._run_graph(graph_input, config, context, writer, handover)
        target = handover.targets.chosen if handover is not None else None
        if ended.interrupts:
            return self._question(ended.interrupts[0], counter.usage, target)
        if target is not None:
            return TurnAnswer(usage=counter.usage, target=target)
        return TurnAnswer(self._parts(ended.state), counter.usage)

    async def _graph_input(self, context: AgentContext, resumed: ResumedRun | None, handover: _Handover | None) -> Any:
        """Returns the graph's input: the reply to its interrupt, the new messages, or the whole conversation."""
        if resumed is not None:
            from langgraph.types import Command

            return Command(resume={resumed.checkpoint["interrupt"]: resumed.reply.text})
        if self._keeps_history:
            state_key = f"langgraph:{self.card.name}"
            conversation = await new_message(
                context, self._history, 0 if _is_private(context) else context.state.get(state_key, 0)
            )
            if not _is_private(context):
                context.state[state_key] = conversation.until
        else:
            conversation = await read_conversation(context, self._history)
        contents = conversation.messages
        if handover is not None and handover.targets.described:
            contents = _with_targets(contents, handover.targets)
        messages = _messages(contents, _run_id(context))
        return {self._key: messages} if self._input is None else self._input(messages, context)

    async def _run_graph(
        self, graph_input: Any, config: Any, context: AgentContext, writer: PieceWriter, handover: _Handover | None
    ) -> _Outcome:
        """Runs the graph, shows pieces of its answer, and returns its last state and interrupts."""
        from langchain_core.messages import AIMessageChunk

        options: dict[str, Any] = {"stream_mode": ["values", "messages"] if context.config.streaming else ["values"]}
        options["context"] = await resolved(self._runtime, context)
        if handover is not None:
            options["control"] = handover.control
        state: Any = None
        interrupts: Sequence[Any] = ()
        token = _handover.set(handover)  # the graph's tasks and threads copy it
        try:
            async with aclosing(self._graph.astream(graph_input, config, **options)) as chunks:
                async for mode, chunk in chunks:
                    if mode == "values":
                        interrupts = chunk.get("__interrupt__", ()) if isinstance(chunk, dict) else ()
                        state = state if interrupts else chunk
                    elif isinstance(chunk[0], AIMessageChunk):
                        await writer.piece(str(chunk[0].text), str(chunk[0].id))
        except Exception as error:
            if handover is None or not handover.has_ended(error):
                raise
        finally:
            _handover.reset(token)
        return _Outcome(state, interrupts)

    def _question(self, interrupt: Any, usage: Usage | None, target: Target | None) -> TurnAnswer:
        """Returns an interrupt as a question to the user. Raises AgentFailed if the graph keeps no checkpoints."""
        if not self._keeps_history:
            raise AgentFailed(
                f"The graph of agent {self.card.name!r} was interrupted, and nothing kept where it stood.",
                fix="Give the graph a checkpointer, and the adapter keeps_history=True.",
            )
        checkpoint: JsonValue = {"interrupt": interrupt.id, "target": target.to_json() if target is not None else None}
        return TurnAnswer(usage=usage, question=as_text(_json(interrupt.value)), checkpoint=checkpoint)

    def _parts(self, state: Any) -> Sequence[Part]:
        """Returns the answer in the graph's last state. Raises AgentFailed if the state has no messages."""
        from langchain_core.messages import AIMessage

        if self._output is not None:
            return _output_parts(self._output(state))
        values = state if isinstance(state, dict) else {}
        if values.get("structured_response") is not None:
            return _output_parts(values["structured_response"])
        messages = values.get(self._key)
        if not isinstance(messages, list):
            raise AgentFailed(
                f"The state of agent {self.card.name!r} has no list of messages under {self._key!r}.",
                fix="Name the key with messages_key, or give the adapter a function as `output`.",
            )
        last = messages[-1] if messages else None
        return text_parts(str(last.text)) if isinstance(last, AIMessage) else ()

    def _explain(self, error: Exception) -> TurnwiseError:
        from langgraph.errors import GraphRecursionError

        if isinstance(error, GraphRecursionError):
            return too_many_steps(self.card.name, error, f"recursion_limit in the config of agent {self.card.name!r}")
        return model_error(self.card.name, error)


def _with_targets(messages: tuple[Content, ...], targets: Targets) -> tuple[Content, ...]:
    """Returns the messages; the last one begins with the agents that can take over."""
    last = messages[-1]
    listed = "\n".join(f"- {name}: {about}" if about else f"- {name}" for name, about in targets.described.items())
    note = TextPart(text=f"[These agents can take over, with the tool {TRANSFER}, if one fits the request better:\n{listed}]")
    return (*messages[:-1], last.replace(parts=(note, *last.parts)))


def _run_id(context: AgentContext) -> str:
    """Returns the message id: the same in every attempt, so the graph does not add a repeated message twice."""
    return f"{context.invocation_id}:{context.event().branch}"


def _is_private(context: AgentContext) -> bool:
    return context.event().is_private


def _thread(context: AgentContext) -> str:
    """Returns the thread id of the session and agent. A private call has a separate thread."""
    parts = [*context.session, context.card.name]
    if _is_private(context):
        parts += [context.invocation_id, context.event().branch]
    return "/".join(quote(part, safe="") for part in parts)


def _messages(messages: Sequence[Content], run_id: str) -> list[Any]:
    """Returns the conversation as LangChain messages."""
    from langchain_core.messages import AIMessage, HumanMessage

    last = len(messages) - 1
    return [
        HumanMessage(_message_content(message), id=run_id if place == last else None)
        if message.role == "user"
        else AIMessage(joined(usable_parts(message)))
        for place, message in enumerate(messages)
    ]


def _message_content(content: Content) -> Any:
    pieces = usable_parts(content)
    if all(isinstance(piece, str) for piece in pieces):
        return joined(pieces)
    return [{"type": "text", "text": piece} if isinstance(piece, str) else _file(piece) for piece in pieces]


def _file(blob: BlobPart) -> dict[str, str]:
    from base64 import b64encode

    kind = "image" if blob.mime_type.startswith("image/") else "file"
    return {"type": kind, "base64": b64encode(blob.data).decode(), "mime_type": blob.mime_type}


def _output_parts(output: Any) -> Sequence[Part]:
    if output is None or isinstance(output, str):
        return text_parts(output or "")
    return (DataPart(name="output", data=_json(output)),)


def _json(value: Any) -> JsonValue:
    plain: JsonValue = to_jsonable_python(value)
    return plain


def _counter() -> Any:
    """Returns a callback that adds up the usage of all models in the graph, including nested ones."""
    from langchain_core.callbacks import AsyncCallbackHandler

    class Counter(AsyncCallbackHandler):  # type: ignore[misc, unused-ignore]
        usage: Usage | None = None

        async def on_llm_end(self, response: Any, **_: Any) -> None:
            for generation in (each for several in response.generations for each in several):
                message = getattr(generation, "message", None)
                if message is not None:
                    one = _usage(message)
                    self.usage = one if self.usage is None else self.usage + one

    return Counter()


def _usage(message: Any) -> Usage:
    """Returns the token counts of a message."""
    counted = getattr(message, "usage_metadata", None) or {}
    about = getattr(message, "response_metadata", None) or {}
    provider, model = about.get("model_provider"), about.get("model_name") or ""
    return Usage(
        model=f"{provider}:{model}" if provider and model else model,
        input_tokens=counted.get("input_tokens", 0),
        cached_tokens=(counted.get("input_token_details") or {}).get("cache_read", 0),
        output_tokens=counted.get("output_tokens", 0),
    )
