"""`turnwise a2a-kit` as a process of its own."""

import signal
from pathlib import Path

import httpx
import pytest
from cli_play import ended, heard, started, turnwise
from gateway_play import DEADLINE_SECONDS

pytest.importorskip("a2a", reason="a2a-sdk is not installed: it comes with the extra a2a")


def test_it_serves_the_kits_agents_without_a_project(tmp_path: Path) -> None:
    process = started("a2a-kit", "--port", "0", cwd=tmp_path)
    try:
        said = heard(process, " at http")
        assert said.startswith("Serving a2a-kit at http://127.0.0.1:")
        assert "stored in sqlite://" in heard(process, "sessions:")
        heard(process, "ready after")
        address = said.split(" at ")[1].split(";")[0]
        with httpx.Client(base_url=address, timeout=DEADLINE_SECONDS, trust_env=False) as client:
            card = client.get("/.well-known/agent-card.json").json()
            assert card["name"] == "a2a-kit"
            assert "tck-complete-task" in {skill["id"] for skill in card["skills"]}
            message = {"role": "ROLE_USER", "messageId": "tck-complete-task-1", "parts": [{"text": "Hello"}]}
            call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
            answer = client.post("/a2a", json=call, headers={"A2A-Version": "1.0"}).json()
            assert answer["result"]["task"]["artifacts"][0]["parts"][0]["text"] == "Hello from TCK"
        process.send_signal(signal.SIGTERM)
        code, said = ended(process)
        assert (code, "stopped" in said) == (0, True)
        assert list(tmp_path.iterdir()) == []
    finally:
        process.kill()
        process.communicate()


def test_it_is_for_this_machine_only(tmp_path: Path) -> None:
    done = turnwise("a2a-kit", "--host", "0.0.0.0", "--port", "0", cwd=tmp_path)
    assert (done.returncode, "gateway.auth" in done.stderr) == (2, True)
