"""Ctrl-C while a command decides, in real processes: it ends, and says that it did."""

import json
import signal
from pathlib import Path

import pytest
from cli_play import CONFIGURATION, Start, ended, heard

DITHERS = """
import asyncio

class Dithers:
    name = "dithers"

    def __init__(self, tree):
        pass

    async def select(self, request):
        print("STARTED", flush=True)
        await asyncio.sleep(60)
"""


@pytest.mark.parametrize("command", [("eval", "cases.jsonl"), ("select", "hello")])
def test_an_interrupted_command_says_so(project: Path, start: Start, command: tuple[str, ...]) -> None:
    """E3"""
    (project / "dithers.py").write_text(DITHERS)
    (project / "turnwise.yaml").write_text(CONFIGURATION + "policy: {stages: ['dithers:Dithers']}\n")
    (project / "cases.jsonl").write_text(json.dumps({"text": "hello", "agent": "slow"}) + "\n")
    process = start(*command, cwd=project)
    heard(process, "STARTED")
    process.send_signal(signal.SIGINT)
    assert ended(process) == (130, "error[interrupted]: Interrupted.\n")
