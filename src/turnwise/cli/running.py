"""An app for the time of one command."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnwise.assemble import App


@asynccontextmanager
async def running(config: Path | None) -> AsyncIterator["App"]:
    """The app of that configuration; its store is closed at the end."""
    from turnwise.assemble import load_app

    app = load_app(config)
    try:
        yield app
    finally:
        await app.runner.close()
