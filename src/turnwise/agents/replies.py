"""A rule-based agent that answers from templates, chosen by the session's state, by slots and by channel."""

import hashlib
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from turnwise.agents.function import make_card
from turnwise.agents.members import members_of
from turnwise.facts.definitions import MadeOfTemplates, ReplyTemplate
from turnwise.facts.errors import AgentDefinitionError
from turnwise.facts.events import End, Event
from turnwise.facts.name_suggestions import did_you_mean
from turnwise.matching.patterns import SlotPattern
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext

_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_TAG, _ESCAPED_TAG = "<next>", "&lt;next>"


class ReplyAgent:
    """Answers each message with the first template that fits. It calls no model.

    A slot's value is found in the message and kept in the session's state; later messages find it there. A template also
    needs the slots that its text shows. A tag for the next speaker in a template or a value is shown, but never obeyed.

    Args:
        name: The agent's name.
        made: The templates and slots. One template has no condition, so that there is always an answer.
        children: The agents below this one.
        card: Other fields of AgentCard.

    Raises:
        AgentDefinitionError: A template is not valid; the message names it.
        PatternError: RE2 refuses the pattern of a slot.
    """

    def __init__(self, name: str, made: MadeOfTemplates, *, children: Sequence[Agent] = (), **card: Any) -> None:
        self.card = make_card({"name": name, **card})
        self.children = members_of(name, children)
        self._made = made
        self._patterns = {slot: SlotPattern(slot, each.pattern) for slot, each in made.slots.items() if each.pattern}
        self._needed = [self._checked(number, template) for number, template in enumerate(made.templates, 1)]
        if all(needed or template.when or template.channels for needed, template in self._each()):
            raise AgentDefinitionError(
                f"Each template of the agent {name!r} has a condition, so that some messages would get no answer.",
                fix="Add a last template without `when`, `slots` and `channels`, whose text shows no slot.",
            )

    def __repr__(self) -> str:
        return f"ReplyAgent({self.card.name!r})"

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        """Yields the text of the first template that fits the state, the channel and the known slots."""
        values = self._values(context)
        channel = context.message_context.channel
        fitting = (
            (number, template)
            for number, (needed, template) in enumerate(self._each())
            if needed <= values.keys()
            and (not template.channels or channel in template.channels)
            and all(context.state.get(key) == value for key, value in template.when.items())
        )
        number, template = next(fitting)
        text = template.text[_choice(len(template.text), self._made.seed, context.invocation_id, number)]
        yield context.event(_filled(text, values).replace(_TAG, _ESCAPED_TAG)).with_actions(end=End())

    def _each(self) -> Iterator[tuple[set[str], ReplyTemplate]]:
        return zip(self._needed, self._made.templates, strict=True)

    def _values(self, context: AgentContext) -> Mapping[str, str]:
        """Returns the slots that have a value. Stores what the message says in the state."""
        values: dict[str, str] = {}
        for name, slot in self._made.slots.items():
            key = slot.state or name
            found = self._patterns[name].find(context.message.text) if name in self._patterns else None
            known = context.state.get(key)
            if found is not None and found != known:
                context.state[key] = found
            value = known if found is None else found
            if isinstance(value, str | int | float):
                values[name] = str(value)
        return values

    def _checked(self, number: int, template: ReplyTemplate) -> set[str]:
        """Returns the slots that a template needs."""
        shown = {name for text in template.text for name in _fields(text, self.card.name, number)}
        for name in sorted({*template.slots, *shown}):
            if name not in self._made.slots:
                raise AgentDefinitionError(
                    f"Template {number} of the agent {self.card.name!r} needs the slot {name!r}, which is not defined.",
                    fix=did_you_mean(name, self._made.slots) if self._made.slots else "Define it under `slots`.",
                )
        return {*template.slots, *shown}


def _fields(text: str, agent: str, number: int) -> Iterator[str]:
    """Yields the slots that a template names. Raises AgentDefinitionError for a single brace."""
    for found in _FIELD.finditer(text):
        if found[1] is not None:
            yield found[1]
        elif found[0] in ("{", "}"):
            raise AgentDefinitionError(
                f"Template {number} of the agent {agent!r} has a single {found[0]!r}.", fix="Write `{{` or `}}` for a brace."
            )


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _FIELD.sub(lambda found: found[0][0] if found[1] is None else values[found[1]], text)


def _choice(count: int, seed: int, invocation_id: str, number: int) -> int:
    """Returns an index that depends on the arguments only. Another attempt of the invocation gives the same one."""
    digest = hashlib.sha256(f"{seed}:{number}:{invocation_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % count
