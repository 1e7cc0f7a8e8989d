"""An app for the time of one command."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnwise.assemble import App
    from turnwise.ports.hooks import Hooks


@asynccontextmanager
async def running(config: Path | None, hooks: "Sequence[Hooks]" = ()) -> AsyncIterator["App"]:
    """The app of that configuration, watched by these hooks too; its store is closed at the end."""
    from turnwise.assemble import load_app

    app = load_app(config, hooks=hooks)
    try:
        yield app
    finally:
        await app.runner.close()
