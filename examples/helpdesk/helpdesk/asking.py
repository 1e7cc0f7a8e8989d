"""Asking the user until the reply can be used."""

from collections.abc import Callable
from typing import TypeVar

from helpdesk import reading
from turnwise import AgentContext, Content

T = TypeVar("T")

TRIES = 3


class Unusable(Exception):
    """This reply does not say what was asked; the message is what to ask next."""


class GivenUp(Exception):
    """The user leaves what was begun, or three replies were of no use; the message is the agent's last word."""


async def ask_for(context: AgentContext, question: str, read: Callable[[Content], T]) -> T:
    """Asks, and gives what `read` makes of the reply. `read` raises Unusable; then it is asked again. GivenUp."""
    for _ in range(TRIES):
        reply = await context.ask(question)
        if reading.wants_out(reply.text):
            raise GivenUp("All right, I leave it at that. Nothing was changed.")
        try:
            return read(reply)
        except Unusable as problem:
            question = str(problem)
    raise GivenUp("That did not work, so I leave it for now. Begin again whenever you like, or ask for a person.")
