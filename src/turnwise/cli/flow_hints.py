"""Commands that somebody at a flow can go on with, as a shell takes them."""

import shlex
from pathlib import Path
from typing import NamedTuple

from turnwise.cli.options import DEFAULT_USER


class Place(NamedTuple):
    """Where runs of flows are kept: by which configuration, if one was named, whose they are, and in which session."""

    config: Path | None
    user: str
    session: str

    @property
    def resume(self) -> str:
        """Goes on with the run that is open there."""
        return self._command("flow", "resume", "--session", self.session)

    @property
    def sessions(self) -> str:
        """Lists the sessions that there are."""
        return self._command("sessions", "list")

    def run(self, flow: str) -> str:
        """Runs a flow there."""
        return self._command("flow", "run", flow, "--session", self.session)

    def _command(self, *words: str) -> str:
        whose = [] if self.user == DEFAULT_USER else ["--user", self.user]
        config = [] if self.config is None else ["--config", str(self.config)]
        return shlex.join(["turnwise", *words, *whose, *config])
