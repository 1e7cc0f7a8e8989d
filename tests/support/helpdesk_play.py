"""What tests of the help desk share: a customer at the desk, and what is told of a result."""

import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any

from turnwise import Content, Runner
from turnwise.facts.content import BlobPart, TextPart
from turnwise.facts.events import USER
from turnwise.runner import Result

HELPDESK = Path(__file__).parents[2] / "examples" / "helpdesk"
DANA = "dana@example.com"


class Desk:
    """One customer's conversation with the desk, and the shop's database behind it."""

    def __init__(self, runner: Runner, shop: Path) -> None:
        self.runner = runner
        self._shop = shop

    async def say(self, text: str, *, file: BlobPart | None = None, session: str = "s", **options: Any) -> Result:
        parts = (TextPart(text=text), file) if file else (TextPart(text=text),)
        invocation = await self.runner.start(Content(role="user", parts=parts), user="dana", session=session, **options)
        return await invocation.result()

    def rows(self, question: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._shop)) as connection:
            return connection.execute(question).fetchall()

    def code(self, email: str = DANA) -> str:
        """The code in the newest mail to that address."""
        ((body,),) = self.rows(f"SELECT body FROM outbox WHERE recipient = '{email}' ORDER BY id DESC LIMIT 1")
        return "".join(letter for letter in str(body).split(". ")[0] if letter.isdigit())


OpenDesk = Callable[[], AbstractAsyncContextManager[Desk]]


def speakers(result: Result) -> list[str]:
    """Who spoke to the user, in order, each once."""
    return list(dict.fromkeys(e.author for e in result.events if e.author != USER and e.text and not e.is_private))


STAYS = ("contextual_stay", "resume")
