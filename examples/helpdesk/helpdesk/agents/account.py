"""A customer's account: points, and moving to a new address."""

import re

from helpdesk.agents.password_reset import password_reset
from helpdesk.asking import Unusable, ask_for, attend, read_yes_or_no
from helpdesk.meant import email_meant
from helpdesk.shop import accounts as shop
from helpdesk.shop.accounts import Account
from helpdesk.wording import money
from turnwise import AgentContext, Content, agent

_MOVE = re.compile(r"(?i)\b(?:address|moved|move|moving)\b")
_ABOUT = re.compile(r"(?i)\b(?:points?|account|profile|details|address|mov\w+|name|loyalty|worth|many|it|my)\b|@")
_ADDRESS = re.compile(
    r"(?P<street>\d+ [^,\n]+),\s*(?P<town>[A-Za-z][A-Za-z .'-]+?),?\s+(?P<state>[A-Za-z]{2})\s+(?P<zip>\d{5})\b"
)


@agent(
    description="Tells a customer's loyalty points and account details, and changes the address.",
    examples=[
        "How many loyalty points have I collected?",
        "What are my reward points worth?",
        "Do my points expire?",
        "We are moving to another town next week.",
        "I have a new address, please note it.",
        "Correct the spelling of my street.",
        "What do you have on file about me?",
        "Show me the data of my account.",
        "Which address is stored in my profile?",
        "I want to look at my customer data.",
        "Change where my parcels are delivered from now on.",
    ],
    tags=["account"],
    children=[password_reset],
)
async def account(message: Content, context: AgentContext) -> str | None:
    return await attend(_account, message, context)


async def _account(message: Content, context: AgentContext) -> str | None:
    text = message.text
    if not _ABOUT.search(text):
        await context.transfer("supervisor")
        return None
    email = await email_meant(text, context, "Which e-mail address is your account under?")
    found = shop.account(email)
    if found is None:
        return f"I find no account under {email}. Perhaps you used another address?"
    if _MOVE.search(text):
        return await _move(text, found, context)
    worth = money(found.points)
    return f"{found.name}, you have {found.points:,} points, worth {worth}. Your address: {_address(found)}."


async def _move(message: str, found: Account, context: AgentContext) -> str:
    given = _ADDRESS.search(message)
    new = (
        given.groupdict()
        if given
        else await ask_for(
            context, "What is the new address? Street, town, state and zip: 18 Pine St, Portland, ME 04102.", _read_address
        )
    )
    changed = found._replace(street=new["street"], town=new["town"], state=new["state"].upper(), zip=new["zip"])
    if not await ask_for(context, f"Your new address is {_address(changed)}. Is that right?", read_yes_or_no):
        return "Then I change nothing. Tell me once more when you have it at hand."
    await context.step(
        "move",
        lambda: shop.move(found.email, street=changed.street, town=changed.town, state=changed.state, zip_code=changed.zip),
    )
    return f"Done. Your next orders go to {_address(changed)}. Orders that have left still go to the old address."


def _address(given: Account) -> str:
    return f"{given.street}, {given.town}, {given.state} {given.zip}"


def _read_address(reply: Content) -> dict[str, str]:
    given = _ADDRESS.search(reply.text)
    if given is None:
        raise Unusable("I could not read that. Like this, please: 18 Pine St, Portland, ME 04102.")
    return given.groupdict()
