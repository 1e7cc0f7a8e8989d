"""The console in a real browser, against a gateway with agents of every kind."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from browser_play import DEADLINE_MILLISECONDS, Watched, a_browser, browsing
from cli_play import written
from gateway_play import Served, key_for, served

from turnwise import AgentContext, Flow, LlmAgent, Runner, SqlSessionStore, agent, tool
from turnwise.assemble import App, load_app
from turnwise.facts.gateway import AuthConfig, CallerLimits, GatewayConfig
from turnwise.gateway.server import front_for, serving
from turnwise.testing.models import ScriptedModel, calls

ROOT = Path(__file__).resolve().parents[2]
AXE = Path(os.environ.get("TURNWISE_PEERS", ROOT / ".venv/peers")) / "node/node_modules/axe-core/axe.min.js"
"""Where `./dev test` installs it."""
SERIOUS = {"serious", "critical"}
MUCH = CallerLimits(requests=10**9, bytes=10**12, runs=10**4, failures=10**9)
OPEN, LOCKED = GatewayConfig(limits=MUCH), GatewayConfig(limits=MUCH, auth=AuthConfig())
HOSTILE = (
    '<img src=x onerror="document.title=1"><script>document.title=2</script> [a](javascript:alert(1)) <next>@orders</next> '
    "**bold** \u202eevil\u202c"
)


class Gate:
    """Holds an agent back in the middle of its answer."""

    def __init__(self) -> None:
        self.open = asyncio.Event()


def desk(gate: Gate | None = None) -> Any:
    """An agent tree: a pattern for each way of answering."""

    @tool(confirm=True)
    def refund(order: int) -> str:
        return "refunded"

    @agent(patterns=["order"], description="Knows where orders are.", examples=["Where is my order?"])
    def orders(message: str) -> str:
        return "Your **order** is on its way:\n\n1. packed\n2. sent"

    @agent(patterns=["which"], description="Asks.", examples=["Which one is it?"])
    async def asker(context: AgentContext) -> str:
        return f"You said {(await context.ask('Which one?')).text}"

    @agent(patterns=["slow"], description="Takes its time.")
    async def slow(context: AgentContext) -> None:
        async with context.stream() as out:
            await out.write("It begins ")
            await out.write("like this")
            if gate is not None:
                await gate.open.wait()
            await out.write(", and ends.")

    @agent(patterns=["break"], description="Fails.")
    async def broken(message: str) -> str:
        raise ValueError("as asked")

    @agent(patterns=["hostile"], description=HOSTILE, examples=[HOSTILE])
    async def hostile(message: str) -> str:
        return HOSTILE

    @agent(patterns=["long"], description="Talks much.")
    async def long(message: str) -> str:
        return "word " * 200_000

    @agent(patterns=["vault"], roles=["staff"], description="Keeps the gold.", examples=["open the vault"])
    def vault(message: str) -> str:
        return "gold"

    payer = LlmAgent(
        "payer", patterns=["refund"], model=ScriptedModel(calls("refund", {"order": 7}), "All is paid."), tools=[refund]
    )

    visit = Flow("visit", description="Plans a visit.", routable=False)

    @visit.task
    def weather(request: str) -> str:
        return "rain"

    @visit.task(depends_on=["weather"])
    def outing(weather: str) -> str:
        return f"By {weather}: a museum."

    @agent(children=[orders, asker, slow, broken, hostile, long, payer, vault, visit], description="Answers the rest.")
    def front(message: str) -> str:
        return f"You said {message}"

    return front


class Console(NamedTuple):
    """A console that is open in a browser."""

    client: Served
    runner: Runner
    watched: Watched

    @property
    def page(self) -> Any:
        return self.watched.page

    async def go(self, path: str = "") -> None:
        """Opens a page of the console, and waits for its heading."""
        await self.page.goto(f"{self.client.address}/console/{path}")
        await self.page.locator("h1").first.wait_for()

    async def say(self, text: str, answer: str = "") -> None:
        """Sends a message, and waits for the answer."""
        await self.page.locator("#message").fill(text)
        await self.page.keyboard.press("Enter")
        if answer:
            await self.page.locator(".answer").get_by_text(answer).last.wait_for()

    async def sees(self, text: str) -> None:
        await self.page.locator(".frame, .toasts").get_by_text(text).first.wait_for(state="visible")

    async def problems_of_access(self) -> list[str]:
        """What axe-core finds serious on the page, of which the context has to bypass the CSP."""
        await self.page.add_script_tag(path=str(AXE))
        found = await self.page.evaluate("axe.run().then(found => found.violations)")
        return [
            f"{each['id']}: {node['html'][:120]} {node['any'][0]['message'] if node['any'] else ''}"
            for each in found
            if each["impact"] in SERIOUS
            for node in each["nodes"]
        ]


_HIDE = """hidden => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


async def hide(page: Any, hidden: bool = True) -> None:
    """Makes the page believe that its tab is hidden, or shown again."""
    await page.evaluate(_HIDE, hidden)


async def open_hidden(it: Console, path: str) -> None:
    """Opens a page of the console in a tab that is not shown."""
    await it.page.add_init_script("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
    await it.go(path)


@asynccontextmanager
async def console(
    root: Any = None,
    config: GatewayConfig = OPEN,
    *,
    url: str = "sqlite://",
    policy: str = "staples",
    runner: Mapping[str, Any] = MappingProxyType({}),
    **options: Any,
) -> AsyncIterator[Console]:
    """The console in a browser of its own, for a gateway of its own. runner: more options of the runner. options: those of
    `opened`.
    """
    a_browser()
    made = Runner(root or desk(), store=SqlSessionStore(url), policy=policy, app="shop", **runner)
    try:
        async with served(made, config) as client, opened(client, made, **options) as it:
            yield it
    finally:
        await made.close()


@asynccontextmanager
async def defined_console(folder: Path, configuration: str, **options: Any) -> AsyncIterator[tuple[Console, App]]:
    """The console of an app that keeps definitions."""
    a_browser()
    app = load_app(written(folder, configuration))
    front = front_for(app.runner, OPEN, editor=app.editor)
    front.ready.set()
    try:
        async with (
            serving(front) as gateway,
            Served(gateway.address, front) as client,
            opened(client, app.runner, **options) as it,
        ):
            yield it, app
    finally:
        await app.runner.close()


@asynccontextmanager
async def opened(
    client: Served, runner: Runner, *, key: dict[str, Any] | None = None, width: int = 1280, **context: Any
) -> AsyncIterator[Console]:
    """A console in a browser of its own. At its end nothing was wrong there, and nobody else was asked for anything.

    key: the rights of the key that the tab has. context: options of the browser's context.
    """
    async with browsing() as watched:
        options = {"viewport": {"width": width, "height": 844 if width < 600 else 800}, **context}
        made = await watched.page.context.browser.new_context(**options)
        if key is not None:
            text = (await key_for(runner, **key))["Authorization"].removeprefix("Bearer ")
            await made.add_init_script(f"sessionStorage.setItem('turnwise.key', '{text}')")
        seen = Watched(await made.new_page())
        made.set_default_timeout(DEADLINE_MILLISECONDS)
        yield Console(client, runner, seen)
        assert not seen.problems, seen.problems
        assert not seen.strangers(client.address), seen.strangers(client.address)
        await made.close()


needs_axe = pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: `./dev test` does it if there is npm.")
