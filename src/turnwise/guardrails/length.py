"""Length limits for messages and answers."""

from turnwise.facts.content import Content, Part, TextPart
from turnwise.facts.errors import ConfigError
from turnwise.guardrails.replacing import Action, checked_action
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place

_MORE = "…"


class Length:
    """Blocks or truncates texts that are longer than a limit.

    Args:
        message: Most characters of a message; None = no limit.
        answer: Most characters of an answer; None = no limit. With a limit the whole answer is buffered before it is sent.
        action: `block`, or `rewrite` to truncate.
        name: The guardrail's name in results.

    Raises:
        ConfigError: A limit is below 1.
    """

    def __init__(
        self, *, message: int | None = None, answer: int | None = None, action: Action = "block", name: str = "length"
    ) -> None:
        for limit in (message, answer):
            if limit is not None and limit < 1:
                raise ConfigError(f"The guardrail {name!r} was given the limit {limit}.", fix="Give 1 or more characters.")
        self.name, self._action = name, checked_action(name, action)
        self._limits: dict[Place, int | None] = {"message": message, "answer": answer}
        self.reach = 0 if answer is None else None

    async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        """Returns the verdict. Its reason names the length and the limit."""
        limit = self._limits.get(place)
        if limit is None:
            return ALLOW
        length = sum(len(part.text) for part in content.parts if isinstance(part, TextPart))
        if length <= limit:
            return ALLOW
        reason = f"It had {length:,} characters, {limit:,} are allowed."
        if self._action == "block":
            return GuardrailVerdict("block", reason=reason)
        return GuardrailVerdict("rewrite", content.with_parts(_cut(content.parts, limit)), reason)


def _cut(parts: tuple[Part, ...], limit: int) -> tuple[Part, ...]:
    """Returns the parts truncated to `limit` characters of text; the last one ends with an ellipsis."""
    left, cut = limit - len(_MORE), list[Part]()
    for part in parts:
        if not isinstance(part, TextPart):
            cut.append(part)
        elif left >= 0:
            text = part.text if len(part.text) <= left else part.text[:left] + _MORE
            left -= len(part.text) if len(part.text) <= left else limit
            cut.append(part.replace(text=text))
    return tuple(cut)
