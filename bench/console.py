"""The console in a real browser: how soon it is usable, decides, opens long sessions and lists many decisions.

Also when an answer is whole although its process died, and what open consoles cost the gateway.

Long sessions and many decisions are copied in the database from those of a few turns.
"""

import asyncio
import shutil
import sqlite3
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.console_deaths import deaths
from bench.gateway.load import Target, loaded
from bench.gateway.servers import Server, serving, wait_until_ready
from bench.measure import Figure, Step, progress, ratio_at_least, ratio_at_most

from turnwise.assemble import load_app

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
USABLE_MS, DECIDED_MS, LISTED_MS, REVIEWED_MS = 500.0, 100.0, 500.0, 4_000.0
SAME, SHARE = 1.5, 0.9
STREAMS = 50
BATCH = 20_000
ID_SECOND = 1_000_000 << 11
"""Ids of decisions are microseconds, followed by 11 other bits."""

CONFIGURATION = """
app: bench
root: bench_agents:desk
store: sqlite:///console.db
policy: {use: default}
gateway:
  limits: {requests: 100000000, bytes: 100000000000, runs: 100000}
"""
AGENTS = """
from turnwise import agent

@agent(description="Knows where orders are.", examples=["Where is my parcel?", "When does my order arrive?"])
def orders(message: str) -> str:
    return "It is on its way."

@agent(description="Refunds and invoices.", examples=["I want my money back", "I need an invoice"])
def billing(message: str) -> str:
    return "It is paid."

@agent(children=[orders, billing], description="Greets.", examples=["Hello"])
def desk(message: str) -> str:
    return "Hello."
"""
TEXTS = ("Where is my parcel?", "I need an invoice", "Hello")
_SERIES = "WITH RECURSIVE series(n) AS (SELECT :first UNION ALL SELECT n + 1 FROM series WHERE n < :last)"
_OF_SESSION = "s.app = 'bench' AND s.session_id = :session"
_EVENTS = f"""
INSERT INTO turnwise_events (owner, log, sequence, event_id, invocation_id, author, body) {_SERIES}
SELECT e.owner, e.log, n, 'e-' || n, 'i-' || (n / 2), e.author, e.body FROM series JOIN turnwise_sessions s ON {_OF_SESSION}
JOIN turnwise_events e ON e.owner = s.owner AND e.log = s.number AND e.sequence = 3 + (n + 1) % 2
"""
_DECISIONS = f"""
INSERT INTO turnwise_decisions (owner, session, sequence, id, app, user_id, invocation_id, agent, method, confidence, tenth,
outcome, fingerprint, state, changed_at, created_at, text, record) {_SERIES}
SELECT d.owner, d.session, 10 + n, d.id - n * {ID_SECOND}, d.app, d.user_id, 'i-' || n, d.agent, d.method,
(n % 100) / 100.0, (n % 100) / 10, d.outcome, d.fingerprint, d.state, d.changed_at, d.created_at, d.text || ' ' || n, d.record
FROM series JOIN turnwise_sessions s ON {_OF_SESSION}
JOIN turnwise_decisions d ON d.owner = s.owner AND d.session = s.number AND d.sequence = 1 + 2 * (n % 3)
"""


class Plan(NamedTuple):
    """The size of a run."""

    tries: int = 20
    starts: int = 20
    events: int = 100_000
    decisions: int = 1_000_000
    seconds: float = 600.0
    """The most time that inserting decisions takes; fewer are measured then."""
    reviewed: int = 200
    deaths: int = 20
    rounds: int = 5


QUICK = Plan(tries=5, starts=2, events=10_000, decisions=100_000, seconds=60.0, reviewed=20, deaths=2, rounds=3)


def measured(plan: Plan, folder: Path) -> list[Figure]:
    """Runs all of it. Without a browser only the streams are measured."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "turnwise.yaml").write_text(CONFIGURATION)
    (folder / "bench_agents.py").write_text(AGENTS)
    asyncio.run(_talk(folder))
    count = _fill(folder / "console.db", plan)
    with progress("The console", 6) as step:
        return asyncio.run(_figures(plan, folder, count, step))


async def _talk(folder: Path) -> None:
    app = load_app(folder / "turnwise.yaml")
    for session in ("short", "long", "many"):
        for text in TEXTS:
            await (await app.runner.start(text, user="local", session=session)).result()
    await app.runner.close()


def _fill(path: Path, plan: Plan) -> int:
    """Copies events and decisions. Returns how many decisions there are."""
    made, began = 0, time.monotonic()
    with sqlite3.connect(path) as connection:
        for session, last in (("short", 100), ("long", plan.events)):
            at = {"session": session, "first": 7, "last": last}
            connection.execute(_EVENTS, at)
            connection.execute(f"UPDATE turnwise_sessions AS s SET last_sequence = :last WHERE {_OF_SESSION}", at)
        while made < plan.decisions and time.monotonic() - began < plan.seconds:
            connection.execute(_DECISIONS, {"session": "many", "first": made + 1, "last": made + BATCH})
            connection.commit()
            made += BATCH
    connection.close()
    return made


async def _figures(plan: Plan, folder: Path, count: int, step: Step) -> list[Figure]:
    found: list[Figure] = []
    async with _browser() as browser:
        if browser is not None:
            found.append(await _usable(plan, folder, browser))
            step("usable")
            found += await _ended("deaths", deaths(plan.deaths, folder / "deaths", browser))
            step("deaths")
        with serving(folder) as server:
            if browser is not None:
                for part in (_decided, _opened, _listed, _reviewed):
                    page, root = await _page(browser), f"http://127.0.0.1:{server.port}/console"
                    found += await _ended(part.__name__.strip("_"), part(plan, page, root, count))
                    step(part.__name__)
            found += await _followed(plan, server)
    return found


async def _ended(name: str, part: Coroutine[Any, Any, list[Figure]]) -> list[Figure]:
    """Returns the figures of a part. One that waits in vain for its page is a failed figure, and the others are measured."""
    from playwright.async_api import Error

    try:
        return await part
    except (Error, RuntimeError) as error:
        return [Figure(f"{name} did not end", str(error).splitlines()[0], "", "it ends", False)]


@asynccontextmanager
async def _browser() -> AsyncIterator[Any]:
    """A headless Chromium; None if this machine has none."""
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        yield None
        return
    place = next(filter(None, map(shutil.which, BROWSERS)), None)
    if place is None:
        yield None
        return
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=place, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        await browser.close()


async def _page(browser: Any) -> Any:
    """A page without anything cached."""
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    return await context.new_page()


def _at_most(label: str, values: list[float], bound: float) -> Figure:
    middle = statistics.median(values)
    shown = f"{middle:,.0f} (worst {max(values):,.0f})"
    return Figure(f"{label}, ms", shown, "", f"≤ {bound:,.0f}", middle <= bound)


async def _took(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return 1_000 * (time.perf_counter() - began)


async def _goto(page: Any, url: str, sight: str) -> None:
    await page.goto(url, wait_until="commit")
    await page.locator(sight).first.wait_for()


async def _usable(plan: Plan, folder: Path, browser: Any) -> Figure:
    """From the first request to a process that is ready, to a page whose figures are there."""
    took = []
    for _ in range(plan.starts):
        with serving(folder) as server:
            root = f"http://127.0.0.1:{server.port}"
            await asyncio.to_thread(wait_until_ready, server.port)
            page = await _page(browser)
            took.append(await _took(partial(_goto, page, f"{root}/console/", ".figures a")))
            await page.context.close()
    return _at_most("first GET after ready to usable", took, USABLE_MS)


_WATCH = """() => {
    window.took = [];
    let began = 0;
    addEventListener("keydown", (event) => { if (event.key === "Enter") began = performance.now(); }, true);
    new MutationObserver(() => {
        const shown = document.querySelectorAll(".decided:not([hidden])").length;
        if (shown > window.took.length) window.took.push(performance.now() - began);
    }).observe(document.body, { childList: true, subtree: true, attributes: true });
}"""


async def _decided(plan: Plan, page: Any, root: str, _: int) -> list[Figure]:
    """From the key to the decision in the page; the browser takes the time."""
    await _goto(page, f"{root}/chat/fresh", "#message")
    await page.evaluate(_WATCH)
    for number in range(plan.tries + 1):
        await page.locator("#message").fill(f"Where is my parcel {number}?")
        await page.keyboard.press("Enter")
        await page.locator(".turn").nth(number).locator(".tools button").first.wait_for(state="attached")
    took = (await page.evaluate("window.took"))[1:]
    return [_at_most("decision shown after Enter", took, DECIDED_MS)]


async def _opened(plan: Plan, page: Any, root: str, _: int) -> list[Figure]:
    found = []
    for place, sight in (("sessions", ".timeline > li"), ("chat", ".turn")):
        took: dict[str, list[float]] = {"short": [], "long": []}
        for number in range(2 * plan.tries + 2):
            name = ("short", "long")[number % 2]
            one = await _took(partial(_goto, page, f"{root}/{place}/{name}?user=local", sight))
            took[name] += [one] if number > 1 else []
        short, long = (statistics.median(took[name]) for name in ("short", "long"))
        what = "timeline" if place == "sessions" else "chat"
        found.append(Figure(f"{what} of 100 / {plan.events:,} events, ms", f"{short:,.0f} / {long:,.0f}"))
        found.append(ratio_at_most(f"{what} of {plan.events:,} events, to that of 100", long / short, SAME))
    return found


async def _listed(plan: Plan, page: Any, root: str, count: int) -> list[Figure]:
    row = page.locator(".rows [role=row]")
    first, filtered, end = list[float](), list[float](), list[float]()

    async def choose(agent: str) -> None:
        await page.get_by_label("Agent", exact=True).select_option(agent)
        await page.wait_for_url(f"**agent={agent}**")
        await page.locator(f".rows [role=row]:has(.chip:text-is('{agent}'))").first.wait_for()
        await row.first.wait_for()

    async def to_end() -> None:
        await page.keyboard.press("e")
        await page.wait_for_url("**order=oldest**")
        await row.first.wait_for()

    for number in range(plan.tries):
        first.append(await _took(lambda: _goto(page, f"{root}/decisions", ".rows [role=row]")))
        await page.locator("select[aria-label=Agent] option").nth(2).wait_for(state="attached")
        end.append(await _took(to_end))
        await _goto(page, f"{root}/decisions", ".rows [role=row]")
        await page.locator("select[aria-label=Agent] option").nth(2).wait_for(state="attached")
        filtered.append(await _took(partial(choose, ("orders", "billing")[number % 2])))
    of = f"of {count:,} decisions"
    return [
        _at_most(f"first row {of}", first, LISTED_MS),
        _at_most(f"a filter {of}", filtered, LISTED_MS),
        _at_most(f"the end of the list {of}", end, LISTED_MS),
    ]


async def _reviewed(plan: Plan, page: Any, root: str, _: int) -> list[Figure]:
    """Labels one decision after the other by the keyboard: the machine's part of the time."""
    await _goto(page, f"{root}/review", ".big")
    took = []

    async def label(number: int) -> None:
        before = await page.locator(".big").inner_text()
        await page.keyboard.press("y" if number % 3 else "2")
        await page.wait_for_function("before => document.querySelector('.big')?.innerText !== before", arg=before)
        await page.locator(".aside .stages li, .reviewing .empty").first.wait_for()

    for number in range(plan.reviewed):
        if await page.locator(".reviewing .empty").count():
            break  # equal messages are one item
        took.append(await _took(partial(label, number)))
    return [_at_most(f"a decision labelled by one key, of {len(took)}, until the next is there", took, REVIEWED_MS)]


async def _followed(plan: Plan, server: Server) -> list[Figure]:
    """Messages a second with and without open consoles that follow new decisions."""
    target = Target(server.port, lambda number, _: f"/api/v1/sessions/load{number}/messages", {"content": TEXTS[0]})
    rates: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * plan.rounds + 2):
        following = bool(number % 2)
        streams = [await _stream(server.port) for _ in range(STREAMS)] if following else []
        rate = (await loaded(target, 16, 20)).per_second
        rates[following] += [rate] if number > 1 else []
        for task in streams:
            task.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
    alone, followed = statistics.median(rates[False]), statistics.median(rates[True])
    return [
        Figure(f"messages a second, without and with {STREAMS} consoles", f"{alone:,.0f} / {followed:,.0f}"),
        ratio_at_least(f"with {STREAMS} open consoles", followed / alone, SHARE),
    ]


async def _stream(port: int) -> "asyncio.Task[None]":
    """Follows new decisions, and throws them away."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /api/v1/decision-stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")

    async def read() -> None:
        try:
            while await reader.read(65536):
                pass
        finally:
            writer.close()

    return asyncio.ensure_future(read())
