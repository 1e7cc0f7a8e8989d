"""How the runner's tests talk to it."""

from turnwise import Content, Runner
from turnwise.facts.sessions import SessionKey
from turnwise.runner import Result


async def ask(runner: Runner, text: str | Content, session: str = "s", **options: object) -> Result:
    """The result of one message of the user ada."""
    invocation = await runner.start(text, user="ada", session=session, **options)  # type: ignore[arg-type]
    return await invocation.result()


def reason(result: Result) -> str:
    """How it ended: an end's reason, or `waiting`."""
    return result.end.reason if result.end else "waiting"


def key(session: str = "s") -> SessionKey:
    return SessionKey("app", "ada", session)


async def log(runner: Runner, session: str = "s") -> list[tuple[str, str]]:
    """Authors and texts of the stored events."""
    return [(e.author, e.text) for e in await runner.store.events(key(session))]
