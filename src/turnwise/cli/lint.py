"""`turnwise lint`: what is wrong with the agents, before a user finds out."""

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

    from turnwise.cli.progress import Work
    from turnwise.learning.findings import Finding
    from turnwise.ports.encoder import Encoder

EVIDENCE_CHARACTERS = 110
_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    app.command(short_help="Find what makes agents hard to tell apart.")(lint)


def lint(
    config: ConfigOption = None,
    examples: Annotated[
        Path | None,
        typer.Option("--examples", metavar="FILE", help="The agents, by example requests; without it, the configuration's."),
    ] = None,
    as_json: JsonOption = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 when there is an error.")] = False,
) -> None:
    """Find what makes agents hard to tell apart: patterns that overlap or match everything, agents that nobody reaches,
    examples that stand with two agents or look like another's, descriptions too alike, missing examples, small talk that
    runs a flow. Nothing runs.
    """
    from turnwise.cli import terminal
    from turnwise.cli.tables import wrapped

    agents, found = asyncio.run(_found(examples, config))
    counts: Counter[str] = Counter(finding.severity for finding in found)
    if as_json:
        findings = [finding.data() for finding in found]
        terminal.print_json({"agents": agents, **{f"{each}s": counts[each] for each in _STYLES}, "findings": findings})
    else:
        terminal.say_all(wrapped([*_shown(found), _summary(agents, counts)], terminal.width()))
    raise typer.Exit(FAILED if strict and counts["error"] else OK)


async def _found(examples: Path | None, config: Path | None) -> "tuple[int, list[Finding]]":
    """How many agents were written down, and what is found in them."""
    from turnwise.cli.evaluation import cascade_for
    from turnwise.cli.progress import worked
    from turnwise.learning.lint import lint, texts_of

    async with cascade_for(examples, None, config) as cascade:
        tree, vectors = cascade.tree, None
        texts = texts_of(tree)
        if texts:
            encoder = cascade.meaning.encoder if cascade.meaning else None
            with worked("reading examples") as work, _ended() as ended:
                vectors = await asyncio.to_thread(vectors_for, texts, encoder, work, ended)
        above = examples is not None  # the agents of a file stand below a root that is in no file
        return len(tree) - above, lint(tree, vectors, default=cascade.spec.default, general=cascade.spec.general)


@contextmanager
def _ended() -> "Iterator[threading.Event]":
    """Set when the block is left: a thread that works for it can stop then."""
    ended = threading.Event()
    try:
        yield ended
    finally:
        ended.set()


def vectors_for(texts: list[str], encoder: "Encoder | None", work: "Work", ended: threading.Event) -> "NDArray[np.float32]":
    """The texts' vectors, read as in matching; those of phrases that were read before are kept.

    encoder: None = the one that is shipped. InterruptedError when it has `ended`.
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
            raise InterruptedError("Nobody waits for it any more.")
        work(what, done, total)

    folder = folder_from_environment()
    plain = [legible(text[:PHRASE_CHARACTERS]) for text in texts]
    return vectors_of(plain, encoder, cache=DiskCache(folder) if folder else None, progress=step)


def _shown(found: "Iterable[Finding]") -> "Iterator[Text]":
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
    from turnwise.cli.rendering import styled

    if not counts:
        return styled("ok", "bold green").append(f" · nothing to find in {agents} agents")
    parts = [f"{counts[each]} {each}{'s' if counts[each] != 1 else ''}" for each in _STYLES if counts[each]]
    return styled(", ".join(parts), "bold").append(f" in {agents} agents", style="dim")
