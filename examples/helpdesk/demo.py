"""Plays a conversation through the help desk and shows every decision; on a terminal it then hands over to you.

python examples/helpdesk/demo.py

Everything happens in a temporary folder that is removed at the end. No key, no network.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
CONFIG = HERE / "turnwise.yaml"
USER, SESSION = "dana", "demo"
NOW = "2026-11-19T10:00"
"""The demo's clock: the dates in the answers are always these."""

sys.path.insert(0, str(HERE))

try:
    from helpdesk import reading
    from helpdesk.shop import accounts
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from turnwise import App, Content, Event, TurnwiseError, load_app
    from turnwise.content import USER as USER_AUTHOR, BlobPart, TextPart
except ModuleNotFoundError as missing:
    if missing.name not in {"turnwise", "rich", "pydantic"}:
        raise
    sys.exit(f"{missing.name} is not installed. Run `./dev demo` in the project's folder: it installs what is needed.")

RECEIPT = BlobPart(data=b"%PDF-1.4\n% Receipt for order A-10398\n", mime_type="application/pdf", name="receipt.pdf")


class Line(NamedTuple):
    """One message of the script. `{code}` stands for the code in the newest mail. note: what to look at."""

    text: str
    note: str
    file: BlobPart | None = None


SCRIPT = (
    Line("Hello there", "Small talk, and nothing else: the general agent."),
    Line("This thing is broken", "Two agents fit alike, a return or the warranty: the user is asked."),
    Line("the return", "The answer, by name, number or other words. The agent gets what was asked before."),
    Line("A-10398", "The returns agent asks, and keeps the answers to its questions."),
    Line("the kettle", "Which item? No pattern knows a kettle."),
    Line("It has a crack, here is the receipt", "The file becomes an artifact; the agent gets its name.", RECEIPT),
    Line("wait, where is my package A-10412 now?", "Plainly a new request, by its number. The question stays open."),
    Line("and when will it get here?", "A follow-up stays with the agent that is busy."),
    Line("now back to my return please", "The conversation goes back to who was there before, and its question."),
    Line("I drop it off in Boston", "The returns agent asks the stores agent in private."),
    Line("until when are your shops open on Sundays?", "A new request that no pattern knows: its meaning is near an example."),
    Line("I'm locked out, the site won't take my password", "Another one. This agent asks, and waits for the reply."),
    Line("dana@example.com", "The reply goes to whoever asked; a code is mailed."),
    Line("{code}", "Six digits: a pattern, and the open question."),
    Line("Cancel order A-10420", "Cancelling wants to be confirmed."),
    Line("yes", "The orders agent cancels it and hands the floor to billing."),
    Line("how long will that take?", "After a transfer, the follow-up stays with the one who got the floor."),
    Line("Can I have an invoice for A-10398?", "Billing writes it as an artifact."),
    Line("What do you have to light my desk, for at most $50?", "A search over the catalogue, though no lamp is named."),
    Line("do they have it in your Boston shop?", "`it` is the first lamp; the shopping agent finds it in the state."),
    Line("Thanks a lot!", "Small talk leaves nobody; who cannot answer it passes it on."),
    Line("and in New York?", "So the follow-up finds its way."),
)


class Demo:
    """One conversation, printed as it goes."""

    def __init__(self, app: App, console: Console) -> None:
        self.failures = 0
        self._app = app
        self._console = console
        self._methods: Counter[str] = Counter()
        self._speakers: Counter[str] = Counter()
        self._transfers = 0

    async def play(self) -> None:
        for number, line in enumerate(SCRIPT, start=1):
            self._console.print(Text(f"{number:>2}  {line.note}", style="dim"))
            await self._turn(line)
            self._console.print()
        self._console.print(await self._summary())

    async def _turn(self, line: Line) -> None:
        text = line.text
        if "{code}" in text:
            mail = _newest_mail()
            self._show("mail", f"{mail.subject}: {mail.body}", "blue")
            text = text.format(code=reading.code(mail.body))
        attached = f"  [{line.file.name}]" if line.file else ""
        self._show("you", text + attached, "bold green")
        parts = (TextPart(text=text), line.file) if line.file else (TextPart(text=text),)
        invocation = await self._app.runner.start(Content(role="user", parts=parts), user=USER, session=SESSION)
        async for event in invocation.events():
            if not event.partial and not event.is_private:
                self._event(event)
        if (await invocation.result()).error:
            self.failures += 1

    def _event(self, event: Event) -> None:
        actions = event.actions
        if event.author == USER_AUTHOR and actions.selection is not None:
            chosen = actions.selection
            self._methods[chosen.method] += 1
            self._decision(f"{chosen.agent} · {chosen.method} · {chosen.confidence:.2f} · {chosen.reason}")
        elif event.error is not None:
            self._show(event.author, f"{event.error.code}: {event.error.message}", "bold red")
        elif event.text and event.author != USER_AUTHOR:
            self._speakers[event.author] += 1
            self._show(event.author, event.text, "bold cyan")
        if actions.transfer_to is not None:
            self._transfers += 1
            self._decision(f"{actions.transfer_to} · transfer · {event.author} hands the floor over")
        for name, version in actions.artifact_versions.items():
            self._show("", f"saved {name}, version {version}", "magenta")

    def _show(self, who: str, text: str, style: str, said: str = "default") -> None:
        """What somebody said, wrapped beside their name."""
        head, width = f"{who:>15}  ", max(self._console.width - 17, 40)
        for line in text.splitlines():
            indent = line[: len(line) - len(line.lstrip())]
            for piece in textwrap.wrap(line, width, subsequent_indent=indent) or [""]:
                self._console.print(Text(head, style=style).append(piece, style=said), soft_wrap=True)
                head = " " * len(head)

    def _decision(self, text: str) -> None:
        """Who, by what method, how sure, and the reason."""
        self._show("→", text, "yellow", said="yellow")

    async def _summary(self) -> Table:
        runner = self._app.runner
        key = runner.key(USER, SESSION)
        events = await runner.sessions.events(key)
        artifacts = await runner.artifacts.list(key) if runner.artifacts else ()
        table = Table(title="What is on record now", title_justify="left", show_header=False)
        table.add_row("messages", str(sum(self._methods.values())))
        table.add_row("chosen by", ", ".join(f"{method} {count}" for method, count in self._methods.most_common()))
        table.add_row("answered by", ", ".join(f"{agent} {count}" for agent, count in self._speakers.most_common()))
        table.add_row("transfers", str(self._transfers))
        table.add_row("artifacts", "\n".join(f"{info.name} ({info.size} bytes)" for info in artifacts))
        table.add_row("events stored", str(len(events)))
        return table


def _newest_mail() -> accounts.Mail:
    """The mail that the help desk has just sent: the demo reads the outbox, a customer their mailbox."""
    return accounts.outbox("dana@example.com")[-1]


async def _play(console: Console) -> int:
    app = load_app(CONFIG)
    demo = Demo(app, console)
    try:
        await demo.play()
    finally:
        await app.runner.close()
    return demo.failures


def _hand_over(console: Console) -> None:
    """Goes on in the same session with `turnwise chat`, as it can be run by hand."""
    console.print("\nNow you: the same session goes on. Ask for an order, a return, a store, a product; Ctrl-D leaves.\n")
    turnwise = Path(sys.executable).with_name("turnwise")
    with suppress(KeyboardInterrupt):
        subprocess.run([turnwise, "chat", "--config", CONFIG, "--user", USER, "--session", SESSION], check=False)
    console.print()


def main() -> int:
    console = Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 120)
    with tempfile.TemporaryDirectory(prefix="turnwise-helpdesk-", ignore_cleanup_errors=True) as folder:
        for name, file in (("DB", "shop.db"), ("SESSIONS", "sessions.db"), ("ARTIFACTS", "artifacts")):
            os.environ[f"HELPDESK_{name}"] = str(Path(folder) / file)
        os.environ["HELPDESK_NOW"] = NOW
        os.environ.pop("HELPDESK_MODEL", None)  # it plays what the desks say without one
        console.print(
            f"This plays {len(SCRIPT)} messages of a customer through a help desk of twelve agents. Before each answer a line\n"
            "says who takes it, by which method, how sure that is, and why. All data is in a temporary folder.\n"
        )
        try:
            failures = asyncio.run(_play(console))
            if sys.stdin.isatty() and sys.stdout.isatty():
                _hand_over(console)
        except TurnwiseError as error:
            print(f"error[{error.code}]: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
