"""A forgotten password: the address, the code from the mail, done.

No secret passes through the conversation, because the conversation is kept: the code comes by mail and is good once, and
the new password goes out by mail. Tries are counted in the database, so that leaving and coming back gives no new ones.
"""

import re

from pydantic import JsonValue

from helpdesk import reading
from helpdesk.asking import ask_for, attend
from helpdesk.meant import read_email
from helpdesk.patterns import likely
from helpdesk.shop import accounts
from turnwise import AgentContext, Content, agent

_AGAIN = re.compile(r"(?i)\b(?:again|resend|new (?:code|one)|another|not (?:come|arrived|here|get|got)|no mail|forgot|reset)\b")
_REPLIES = 8
_OVER = "That code is over: three tries, fifteen minutes, and once. Nothing was changed; begin again, or ask for a person."


@agent(
    description="Resets a forgotten password: mails a code to the account's address and checks it.",
    patterns=likely(r"^\W*(?:(?:my|the) )?(?:code\W*)?(?:is )?\d{3}[ -]?\d{3}\W*$", means="a code of six digits"),
    examples=[
        "I do not know my password any more.",
        "Logging in does not work.",
        "Your site does not let me sign in.",
        "I need a new password.",
        "My account is locked after too many attempts.",
        "It says my password is wrong.",
        "Send me a code to get back into my account.",
        "Here is the code you mailed me.",
        "How do I change my password?",
    ],
    tags=["account"],
)
async def password_reset(message: Content, context: AgentContext) -> str | None:
    return await attend(_password_reset, message, context)


async def _password_reset(message: Content, context: AgentContext) -> str:
    email = reading.email(message.text)
    if email is None:
        email = await ask_for(context, "Which e-mail address is your account under?", read_email)
    return await _check_codes(email, context)


async def _check_codes(email: str, context: AgentContext) -> str:
    reset = await _send(email, 0, context)
    question = _sent(email)
    for turn in range(1, _REPLIES):
        reply = (await context.ask(question)).text
        if reading.wants_out(reply):
            return "All right. Your password stays as it was."
        code, other = reading.code(reply), reading.email(reply)
        if code:
            outcome = await _try(reset, code, turn, context)
            if outcome == "right":
                context.state["user:email"] = email
                return f"That is right. Your old password is gone, and a new one is on its way to {email}. Anything else?"
            if outcome == "over":
                return _OVER
            question = "That is not the code I sent. Please look again: six digits, in the newest mail."
        elif other or _AGAIN.search(reply):
            email = other or email
            reset = await _send(email, turn, context)
            question = _sent(email)
        else:
            question = "The code has six digits. Tell me the code, another address, or never mind."
    return _OVER


async def _send(email: str, turn: int, context: AgentContext) -> int:
    reset = await context.step(f"send code {turn}", lambda: accounts.start_reset(email))
    assert isinstance(reset, int)
    return reset


async def _try(reset: int, code: str, turn: int, context: AgentContext) -> JsonValue:
    return await context.step(f"try code {turn}", lambda: accounts.try_code(reset, code))


def _sent(email: str) -> str:
    return f"If there is an account for {email}, a code of six digits is on its way there. What is the code?"
