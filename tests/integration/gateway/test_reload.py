"""`turnwise serve --reload`: the server is started again when a file of the project changes."""

import signal
import subprocess
from pathlib import Path

import httpx
import pytest
from cli_play import ended, heard, started
from gateway_play import DEADLINE_SECONDS
from serve_play import MESSAGES, project


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_a_change_counts_at_once_and_a_mistake_is_waited_out(tmp_path: Path, end: signal.Signals) -> None:
    folder = project(tmp_path)
    code = folder / "serve_agents.py"
    process = started("serve", "--reload", "--port", "0", cwd=folder)
    try:
        assert answer(address(process)) == "You said hi"
        code.write_text(code.read_text().replace("You said", "They said"))
        assert "serve_agents.py" in heard(process, "Reloading, because of changes")
        heard(process, "stopped")
        at = address(process)
        assert answer(at) == "They said hi"
        settings = (folder / "turnwise.yaml").read_text()
        (folder / "turnwise.yaml").write_text(settings + "polcy: x\n")
        heard(process, "has no key 'polcy'")
        heard(process, "It is started again when a file changes")
        (folder / "turnwise.yaml").write_text(settings)
        at = address(process)
        assert answer(at) == "They said hi"
        process.send_signal(end)
        assert ended(process)[0] == 0
        with pytest.raises(httpx.ConnectError):
            answer(at)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def address(process: subprocess.Popen[str]) -> str:
    """Where it listens, once it is ready."""
    line = heard(process, "Serving ")
    heard(process, "ready after")
    return line.split(" at ")[1].split(";")[0].strip()


def answer(at: str) -> str:
    with httpx.Client(base_url=at, timeout=DEADLINE_SECONDS, trust_env=False) as client:
        return str(client.post(MESSAGES, json={"content": "hi"}).json()["text"])
