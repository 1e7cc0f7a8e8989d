"""Greetings, thanks, frequent questions, and what this desk can do."""

import re

from helpdesk import clock, reading
from helpdesk.asking import not_twice
from helpdesk.shop import catalogue
from turnwise import AgentContext, agent

_HELLO = r"(?:hi|hello|hey|howdy|good (?:morning|afternoon|evening|day))"
_FAREWELL = r"(?:bye|goodbye|bye bye|see you|that'?s all|have a (?:nice|good|great) (?:day|one|evening))"
_GREETING = re.compile(rf"(?i)^\W*{_HELLO}\b")
_THANKS = re.compile(r"(?i)\b(?:thanks?|thank you|thx|cheers|great|perfect|awesome|wonderful)\b")
_BYE = re.compile(rf"(?i)\b{_FAREWELL}\b")
_WHO = re.compile(r"(?i)\b(?:who|what) are you\b|\bare you (?:a )?(?:bot|robot|human|real)\b|\b(?:your|ur) name\b")
_HELP = re.compile(r"(?i)\bwhat can you do\b|\bhow can you help\b|^\W*help(?: me)?\W*$")
_ABILITIES = (
    "I can track and cancel orders, take returns, open warranty claims, find refunds and write invoices, reset your password, "
    "change your address, search our products, and find a store. Ask for a person whenever you want one.",
    "Name an order, a return, a refund, a warranty, an invoice, your password or address, a product or a town, and I look it "
    "up. What I cannot do, a person can: you only have to ask for one.",
)


@agent(
    description="Greets, answers frequent questions about shipping, payment and policies, and says what the desk can do.",
    examples=[
        "Hello!",
        "Good evening",
        "Thank you very much.",
        "That was all, goodbye.",
        "What does shipping cost?",
        "What are your rules for returns?",
        "How long is the delivery time?",
        "How can I pay, which payments do you accept?",
        "Can you deliver to another country?",
        "Do you ship to Canada?",
        "How much is express delivery?",
        "Can I pay with bitcoin?",
        "Do you take cash?",
        "Can I pay later, or in instalments?",
        "Do you match the price of other shops?",
        "Is there a discount for students?",
        "Can you wrap it as a gift?",
        "Are there open jobs at your company?",
        "What do you do with my data?",
        "Am I talking to a machine?",
        "Tell me a joke.",
        "What kind of things can you help me with?",
        "Can you help me?",
        "Help!",
        "All right, thanks.",
    ],
    tags=["general"],
    # It only fills a pause: after "thanks" the next follow-up belongs to whoever was busy before.
    resume="never",
)
async def general(message: str, context: AgentContext) -> str | None:
    # A step, because `not_twice` changes this key, and a turn that is run again must read the same.
    before = await context.step("said before", lambda: context.state.get("last_answer"))
    said = str(before[1]) if isinstance(before, list) else ""
    abilities = next(text for text in _ABILITIES if text not in said)
    return await not_twice(_answer(message, abilities), message, context)


def _answer(message: str, abilities: str) -> str:
    """Answers. `abilities` is what the desk can do, in words that were not used just before."""
    if _WHO.search(message):
        return f"I am the help desk's assistant, a program. {abilities}"
    if _HELP.search(message):
        return abilities
    answer = catalogue.frequent_answer(message)
    if answer:
        return answer
    if _THANKS.search(message):
        return "You are welcome. Is there anything else?"
    if _BYE.search(message):
        return "Goodbye, and thank you for coming by."
    if _GREETING.search(message):
        return f"{_daytime()}! How can I help? {abilities}"
    return f"I have no answer to “{reading.quoted(message)}”. {abilities}"


def _daytime() -> str:
    hour = clock.now().hour
    return "Good morning" if hour < 12 else "Good afternoon" if hour < 18 else "Good evening"
