"""`turnwise lint`: finds weaknesses of the agents' descriptions, examples and patterns."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.exits import FAILED, OK
from turnwise.cli.options import ConfigOption, JsonOption

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.text import Text

    from turnwise.cli.progress_bars import WorkCallback
    from turnwise.learning.lint_examples import Finding
    from turnwise.ports.encoder import Encoder

EVIDENCE_CHARACTERS = 110
_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command(short_help="Find what makes agents hard to tell apart.")(lint)


def lint(
    config: ConfigOption = None,
    examples: Annotated[
        Path | None,
        typer.Option(
            "--examples", metavar="FILE", help="Example requests that define the agents; by default the configuration's agents."
        ),
    ] = None,
    as_json: JsonOption = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if there is an error.")] = False,
) -> None:
    """Find what makes agents hard to tell apart: patterns that overlap or match everything, agents that cannot be reached,
    examples that two agents share or that resemble another agent's, similar descriptions, missing examples, small talk that
    runs a flow. No agent runs.
    """
    from turnwise.cli import terminal
    from turnwise.cli.rendering import wrap

    agents, found = asyncio.run(_findings(examples, config))
    counts: Counter[str] = Counter(finding.severity for finding in found)
    if as_json:
        findings = [finding.data() for finding in found]
        terminal.print_json({"agents": agents, **{f"{each}s": counts[each] for each in _STYLES}, "findings": findings})
    else:
        terminal.print_lines(wrap([*finding_lines(found), _summary(agents, counts)], terminal.width()))
    raise typer.Exit(FAILED if strict and counts["error"] else OK)


async def _findings(examples: Path | None, config: Path | None) -> "tuple[int, list[Finding]]":
    """Returns the number of agents and the findings about them."""
    from turnwise.cli.eval import cascade_for
    from turnwise.cli.progress_bars import work_bar
    from turnwise.learning.lint import lint, texts_of

    async with cascade_for(examples, None, config) as cascade:
        tree, vectors = cascade.tree, None
        texts = texts_of(tree)
        if texts:
            encoder = cascade.meaning.encoder if cascade.meaning else None
            with work_bar("reading examples") as work, _stop_event() as ended:
                vectors = await asyncio.to_thread(vectors_for, texts, encoder, work, ended)
        above = examples is not None  # agents of an examples file have a root that the file does not define
        return len(tree) - above, lint(tree, vectors, default=cascade.spec.default, general=cascade.spec.general)


@contextmanager
def _stop_event() -> "Iterator[threading.Event]":
    """An event that is set when the block ends, so that its worker thread can stop."""
    ended = threading.Event()
    try:
        yield ended
    finally:
        ended.set()


def vectors_for(
    texts: list[str], encoder: "Encoder | None", work: "WorkCallback", ended: threading.Event
) -> "NDArray[np.float32]":
    """Encodes the texts as matching does, and caches the vectors.

    Args:
        encoder: None = the built-in one.
        ended: stops the work when it is set.

    Raises:
        InterruptedError: if `ended` was set.
    """
    from turnwise.matching.disk_cache import DiskCache, folder_from_environment
    from turnwise.matching.normalize import legible
    from turnwise.selection.phrases import PHRASE_CHARACTERS
    from turnwise.selection.vectors import vectors_of

    if encoder is None:
        from turnwise.matching.encoder.onnx_encoder import OnnxEncoder

        encoder = OnnxEncoder()

    def step(what: str, done: int, total: int) -> None:
        if ended.is_set():
            raise InterruptedError("The result is no longer needed.")
        work(what, done, total)

    folder = folder_from_environment()
    plain = [legible(text[:PHRASE_CHARACTERS]) for text in texts]
    return vectors_of(plain, encoder, cache=DiskCache(folder) if folder else None, progress=step)


def finding_lines(found: "Iterable[Finding]") -> "Iterator[Text]":
    """The lines of findings: the problem, the texts that show it, and the fix."""
    from rich.text import Text

    from turnwise.cli.rendering import styled
    from turnwise.cli.terminal import one_line

    for finding in found:
        line = styled(f"{finding.severity}[{finding.code}]", _STYLES[finding.severity])
        line.append(f" {one_line(finding.problem)}")
        yield line
        for text in finding.evidence:
            yield Text("    ").append(one_line(text, EVIDENCE_CHARACTERS), style="dim")
        yield Text("  ").append(one_line(finding.fix))
        yield Text()


def _summary(agents: int, counts: Counter[str]) -> "Text":
    """The counts of findings by severity."""
    from turnwise.cli.rendering import styled

    if not counts:
        return styled("ok", "bold green").append(f" · nothing to find in {agents} agents")
    parts = [f"{counts[each]} {each}{'s' if counts[each] != 1 else ''}" for each in _STYLES if counts[each]]
    return styled(", ".join(parts), "bold").append(f" in {agents} agents", style="dim")
