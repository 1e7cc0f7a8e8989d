"""Asking the user until the reply can be used, and what to do when it cannot."""

import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

from helpdesk import reading
from helpdesk.patterns import PLAIN
from helpdesk.shop import catalogue
from turnwise import AgentCard, AgentContext, Content

T = TypeVar("T")

TRIES = 3


class Unusable(Exception):
    """This reply does not say what was asked; the message is what to ask next."""


class Further(Unusable):
    """Nor does this one, but it helps: it is not counted as a try."""


class GivenUp(Exception):
    """The user leaves what was begun, or three replies were of no use; the message is the agent's last word."""


class NewRequest(Exception):
    """Instead of a reply came a new request to the same agent."""

    def __init__(self, message: Content) -> None:
        super().__init__()
        self.message = message


async def attend(
    work: Callable[[Content, AgentContext], Awaitable[str | None]], message: Content, context: AgentContext
) -> str | None:
    """Does an agent's work on the message: on the new request if one comes instead of a reply; until the user gives up."""
    if reading.wants_nothing_more(message.text):
        return "All right. Is there anything else?"
    while True:
        try:
            return await not_twice(await work(message, context), message.text, context)
        except GivenUp as last_word:
            return str(last_word)
        except NewRequest as request:
            message = request.message


async def not_twice(answer: str | None, message: str, context: AgentContext) -> str | None:
    """Says that there is no other answer when another message just got the same one."""
    if answer is None:
        return None  # another agent answers; what was said last stays
    # A step, because the state is written before the turn ends and must read the same when it is run again.
    before = await context.step("answered", lambda: context.state.get("last_answer"))
    context.state["last_answer"] = [message, answer]
    if not isinstance(before, list) or before[1] != answer or before[0] == message:
        return answer
    return f"About “{reading.quoted(message)}” I know no more than this: {answer}"


async def ask_for(context: AgentContext, question: str, read: Callable[[Content], T]) -> T:
    """Asks, and gives what `read` makes of the reply. `read` raises Unusable; then it is asked again. GivenUp, NewRequest.

    A frequent question that comes instead of a reply is answered, before the same is asked again.
    """
    tries, first = 0, question
    while tries < TRIES:
        reply = await context.ask(question)
        if reading.wants_out(reply.text):
            raise GivenUp("All right, I leave it at that. Nothing was changed.")
        try:
            return read(reply)
        except Unusable as problem:
            if _is_request(reply.text, context.card):
                raise NewRequest(reply) from None
            answer = catalogue.frequent_answer(reply.text)
            if answer:
                next_question = f"{answer} Now back to what I asked: {first}"
                about = f"About “{reading.quoted(reply.text)}” I know no more than this: "
                question = about + next_question if next_question == question else next_question
                continue
            same = question.endswith(str(problem))
            question = f"I cannot use “{reading.quoted(reply.text)}” here. {problem}" if same else str(problem)
            tries += not isinstance(problem, Further)
    raise GivenUp("That did not work, so I leave it for now. Begin again whenever you like, or ask for a person.")


def _is_request(text: str, card: AgentCard) -> bool:
    plain = (pattern.regex for pattern in card.patterns if pattern.confidence >= PLAIN)
    return any(re.search(regex, text, re.IGNORECASE) for regex in plain)


def read_yes_or_no(reply: Content) -> bool:
    answer = reading.yes_or_no(reply.text)
    if answer is None:
        raise Unusable("Please say yes or no.")
    return answer
