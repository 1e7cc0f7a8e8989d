"""The root: passes on what nobody claimed, and puts those who want a person into the queue."""

import re

from helpdesk import reading
from helpdesk.agents.account import account
from helpdesk.agents.billing import billing
from helpdesk.agents.general import general
from helpdesk.agents.orders import orders
from helpdesk.agents.shopping import shopping
from helpdesk.asking import attend
from helpdesk.meant import email_meant
from helpdesk.patterns import plain
from helpdesk.shop import accounts, stores
from turnwise import AgentContext, Content, agent

_SOMEONE = r"(?:person|human|someone|somebody|agent|representative|employee|manager|supervisor|colleague|real person)"
_PERSON = re.compile(rf"(?i)\b{_SOMEONE}\b|\bcomplain(?:t|ts|ing)?\b|\bcall me\b")
_WHEN = re.compile(r"(?i)\b(?:when|how long|how soon|queue|wait(?:ing)?|my case)\b")
_MINUTES_A_CASE = 10


@agent(
    description="Puts people who want a person into the queue, and passes on what nobody else claimed.",
    patterns=plain(
        r"\b(?:talk|speak|chat|connect me|transfer me|put me through|get me|give me|need|want|ask for)\b[^.?!]* "
        rf"(?:an?|the|your|some)? ?(?:real |live |actual )?{_SOMEONE}\b",
        rf"^\W*(?:a )?(?:real |live )?{_SOMEONE}(?: please)?\W*$",
        means="asking for a person",
    ),
    examples=[
        "I want to talk to a real human.",
        "Let me speak with somebody who can decide.",
        "Connect me with an employee.",
        "I would like to complain about your service.",
        "Somebody should call me back.",
        "When is it my turn in the queue?",
        "Is there any news about my complaint?",
        "What happens with my case?",
    ],
    children=[orders, billing, account, shopping, general],
    # What it did last was passing on: a follow-up belongs to those it passed on to.
    resume="never",
)
async def supervisor(message: Content, context: AgentContext) -> str | None:
    return await attend(_supervisor, message, context)


async def _supervisor(message: Content, context: AgentContext) -> str | None:
    text = message.text
    case = context.state.get("case")
    if case and _WHEN.search(text) and not _PERSON.search(text):
        return _queue(int(case))
    if _PERSON.search(text):
        return f"Case {case} is open already. {_queue(int(case))}" if case else await _open_case(text, context)
    desk = _desk_for(text)
    if desk in context.transfer_targets:
        await context.transfer(desk)
        return None
    return "I could not find out who can help with that. Say it in other words, or ask for a person."


def _desk_for(message: str) -> str:
    """Whom the clues in the message belong to, when no pattern took it."""
    if reading.gift_card(message):
        return "billing"
    if reading.order_number(message):
        return "orders"
    if reading.email(message):
        return "account"
    if reading.zip_code(message) or reading.town(message, stores.towns()):
        return "shopping"
    return "general"


async def _open_case(message: str, context: AgentContext) -> str:
    email = await email_meant(message, context, "I put you into the queue. Under which e-mail address can they reach you?")
    case = await context.step("open case", lambda: accounts.open_case(email, message))
    context.state["case"] = case
    return f"Case {case} is open. {_queue(int(str(case)))} They read what we have said here, and write to {email}."


def _queue(case: int) -> str:
    before = accounts.cases_before(case)
    waiting = "You are the next" if before == 0 else f"{before} are before you"
    return f"{waiting}; a person is with you in about {(before + 1) * _MINUTES_A_CASE} minutes."
