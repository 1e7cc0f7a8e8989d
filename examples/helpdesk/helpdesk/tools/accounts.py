"""Accounts for models: details, moving, forgotten passwords, and the queue for a person.

No secret passes through the conversation, and a model never says whose account it works on when the caller vouches for one.
"""

from typing import Annotated, Any

from pydantic import Field

from helpdesk.shop import accounts as shop
from helpdesk.wording import money
from turnwise import AgentContext
from turnwise.errors import ToolFailed
from turnwise.tools import tool

Email = Annotated[str, Field(description="The customer's e-mail address.")]


def address(email: str, context: AgentContext) -> str:
    """The address to work with: the one that the caller vouches for, else the one that was said, which is remembered."""
    vouched = context.message_context.attributes.get("email")
    known = str(vouched or email).lower()
    context.state["user:email"] = known
    return known


def account(email: Email, context: AgentContext) -> dict[str, Any]:
    """Tells a customer's name, address and loyalty points."""
    found = shop.account(address(email, context))
    if found is None:
        raise ToolFailed("There is no account under that address.", fix="Perhaps they used another one.")
    return {**found._asdict(), "worth of the points": money(found.points)}


@tool(confirm=True)
def move(
    email: Email,
    street: Annotated[str, Field(description="Number and street, such as 18 Pine St.")],
    town: str,
    state: Annotated[str, Field(pattern=r"^[A-Z]{2}$")],
    zip_code: Annotated[str, Field(pattern=r"^\d{5}$")],
    context: AgentContext,
) -> str:
    """Changes the address of an account. The customer is asked first whether it is right."""
    if not shop.move(address(email, context), street=street, town=town, state=state, zip_code=zip_code):
        raise ToolFailed("There is no account under that address.")
    return "The next orders go there; those that have left still go to the old address."


def send_code(email: Email, context: AgentContext) -> str:
    """Mails a code of six digits with which a forgotten password is reset."""
    known = address(email, context)
    context.state["reset"] = shop.start_reset(known)
    return f"If there is an account for {known}, a code is on its way there. Ask for it."


def try_code(code: Annotated[str, Field(pattern=r"^\d{6}$")], context: AgentContext) -> str:
    """Tries the code that the customer got. If it is right, a new password goes out by mail."""
    reset = context.state.get("reset")
    outcome = "over" if reset is None else shop.try_code(int(reset), code)
    if outcome == "right":
        return "That was right: a new password is on its way by mail."
    again = "Mail a new one." if outcome == "over" else "They may look again, in the newest mail."
    raise ToolFailed("That code is over." if outcome == "over" else "That is not the code.", fix=again)


def open_case(email: Email, topic: Annotated[str, Field(description="What it is about.")], context: AgentContext) -> str:
    """Puts the customer into the queue for a person, who writes to that address."""
    case = context.state.get("case") or shop.open_case(address(email, context), topic)
    context.state["case"] = case
    return f"Case {case} is open; {shop.cases_before(int(case))} are before it, about ten minutes each."
