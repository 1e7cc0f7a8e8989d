"""The instructions that a model gets besides the conversation."""

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from turnwise.agents.llm.design import NAME as OUTPUT, Design, Instructions
from turnwise.agents.llm.memory import MEMORY_MARKS
from turnwise.agents.llm.toolbox import Toolbox
from turnwise.facts.errors import AgentFailed
from turnwise.ports.context import AgentContext, Artifacts, State
from turnwise.ports.stores import Artifact
from turnwise.tools.event_loop import in_thread
from turnwise.transcript.fences import PREAMBLE

_ARTIFACT = "artifact."
_NAME = r"(?:user:)?\w[\w./-]*(?: [\w./-]+)*"
_KEY = rf"(?:artifact\.{_NAME}|(?:app:|user:|temp:)?[A-Za-z_][\w.-]*)"
_PLACEHOLDER = re.compile(rf"\{{\{{({_KEY}\??)\}}\}}|\{{({_KEY})(\??)\}}")


class Prompt(NamedTuple):
    """The parts of a model's instructions."""

    own: str
    """The agent's own instructions."""
    marks: str
    """The explanation of the marks around other speakers' words; sent only if the messages contain such marks."""
    situation: str
    """The text about transfers, colleagues, the assignment and tools. It stays the same from turn to turn."""
    note: str = ""
    """The unusual facts of this turn. It is sent after the conversation, so that a provider's cache keeps all before it."""
    always_marks: bool = False
    """True if other agents may speak, or entries of the memory may come: the marks are always explained."""

    def text(self, *, has_marks: bool) -> str:
        """Returns the instructions for a request; with `has_marks`, they explain the marks in its messages."""
        parts = (self.own, self.marks if has_marks or self.always_marks else "", self.situation)
        return "\n\n".join(part for part in parts if part)


async def prompt_of(design: Design, context: AgentContext, toolbox: Toolbox) -> Prompt:
    """Builds the instructions for this turn: the agent's own, and the text about its conversation, tools and colleagues.

    Raises:
        AgentFailed: A state key or an artifact is missing, or the instructions function returned no text.
    """
    own = (await _filled(design.instructions, context)).strip()
    marks = f"You are {_quoted(context.card.name)}.\n{PREAMBLE}"
    situation = (part.strip() for part in _situation(design, context, toolbox))
    note = "\n".join(part for part in await _note(design, context, toolbox) if part)
    return Prompt(
        own,
        marks,
        "\n\n".join(part for part in situation if part),
        note,
        always_marks=len(context.tree) > 1 or design.memory.preloads,
    )


def fill_template(template: str, state: State, agent: str, artifacts: Mapping[str, str] | None = None) -> str:
    """Replaces `{key}` in the template with values of the state: strings unchanged, other values as JSON.

    `{artifact.name}` is replaced with a text of `artifacts`. `{key?}` is empty if the key is missing, and `{{key}}` is
    a literal `{key}`. Other braces stay. Inserted text is not expanded again.

    Raises:
        AgentFailed: A key or an artifact is missing; the message names it.
    """
    texts = artifacts or {}

    def fill(match: re.Match[str]) -> str:
        escaped, key, optional = match.groups()
        if escaped is not None:
            return f"{{{escaped}}}"
        name = _artifact_of(key)
        value = state.get(key) if name is None else texts.get(name)
        if value is None and not optional:
            raise _missing_error(key, name, agent)
        if value is None:
            return ""
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return _PLACEHOLDER.sub(fill, template)


async def texts_of(template: str, artifacts: Artifacts, agent: str) -> dict[str, str]:
    """Loads the artifacts that the template names and returns their texts by name, without those that do not exist.

    Raises:
        AgentFailed: An artifact is not text.
        ConfigError: The app has no artifact store.
    """
    names = (_artifact_of(match[2]) for match in _PLACEHOLDER.finditer(template) if match[2])
    loaded = {name: await artifacts.load(name) for name in dict.fromkeys(names) if name is not None}
    return {name: _text(artifact, agent) for name, artifact in loaded.items() if artifact is not None}


def _artifact_of(key: str) -> str | None:
    """Returns the artifact that the key names; None for a state key."""
    return key.removeprefix(_ARTIFACT) or None if key.startswith(_ARTIFACT) else None


def _missing_error(key: str, artifact: str | None, agent: str) -> AgentFailed:
    what = f"state key {key!r}, which is not set" if artifact is None else f"artifact {artifact!r}, which does not exist"
    first = "Set it" if artifact is None else "Save it"
    fix = f"{first}, write {{{key}?}} if it may be missing, or {{{{{key}}}}} if these braces are meant."
    return AgentFailed(f"The instructions of agent {agent!r} name the {what}.", fix=fix)


def _text(artifact: Artifact, agent: str) -> str:
    """Decodes an artifact that the instructions name. Raises AgentFailed unless it is UTF-8."""
    try:
        return artifact.data.decode("utf-8")
    except UnicodeDecodeError:
        raise AgentFailed(
            f"The instructions of agent {agent!r} name the artifact {artifact.info.name!r}, which is no text.",
            fix="Name an artifact that holds text in UTF-8.",
        ) from None


async def _filled(given: Instructions, context: AgentContext) -> str:
    """Returns the text of a template or of a function of the context."""
    if isinstance(given, str):
        name = context.card.name
        return fill_template(given, context.state, name, await texts_of(given, context.artifacts, name))
    text = given(context) if inspect.iscoroutinefunction(given) else await in_thread(given, context)
    text = await text if inspect.isawaitable(text) else text
    if not isinstance(text, str):
        raise AgentFailed(
            f"The instructions of agent {context.card.name!r} gave a {type(text).__name__}.", fix="Return a text."
        )
    return text


def _situation(design: Design, context: AgentContext, toolbox: Toolbox) -> Iterator[str]:
    """Yields the instructions of this turn: transfers, team, memory, assignment, structured output."""
    if toolbox.transfer is not None:
        yield _transfers(context, toolbox.transfer.spec.name)
    if design.names_next:
        yield _team(context)
    if design.memory.preloads:
        yield MEMORY_MARKS
    if context.assignment is not None:
        yield context.assignment.instructions
    if design.output is not None:
        yield f"Give your answer by calling {OUTPUT}, never as plain text."


async def _note(design: Design, context: AgentContext, toolbox: Toolbox) -> Sequence[str]:
    """Returns what is unusual in this turn."""
    available = context.transfer_targets
    away = [name for name in context.transfer_candidates if name not in available]
    return (
        f"Not available now: {', '.join(away)}." if away else "",
        # The problems quote text of servers, which is untrusted.
        "Some of your tools cannot be had now." if toolbox.problems else "",
        context.notice,
        (await _filled(design.turn_instructions, context)).strip(),
    )


def _transfers(context: AgentContext, tool: str) -> str:
    listed = "\n".join(_agent_line(context, name) for name in context.transfer_candidates)
    return (
        f"When one of these agents fits the request better than you do, hand the conversation to it with {tool}, "
        f"instead of an answer of your own:\n{listed}"
    )


def _team(context: AgentContext) -> str:
    """Returns the text on naming the next speaker (behaviours B4 to B7); empty if there is no other agent.

    In a team, the candidates are the other members. Outside a team, they are the agent's transfer targets.
    """
    tree, name = context.tree, context.card.name
    parent = tree.card(name).parent
    others: Sequence[str] = context.transfer_candidates
    if parent is not None and tree.card(parent).is_composite:
        others = [other for other in tree.children(parent) if other != name and tree.card(other).enabled]
    if not others:
        return ""
    listed = "\n".join(_agent_line(context, other) for other in others)
    return (
        f"You are {_quoted(name)}, and work in a team with:\n{listed}\n"
        "When one of them has to go on, end your answer with their name in a tag, like this: <next>@Name</next>. "
        "Without such a tag your answer goes to the user, and the work is done."
    )


def _agent_line(context: AgentContext, name: str) -> str:
    description = " ".join(context.tree.card(name).description.split())
    return f"- {name}: {description}" if description else f"- {name}"


def _quoted(name: str) -> str:
    return f'"{name}"'
