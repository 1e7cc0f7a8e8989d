"""`turnwise serve` is told to stop while clients of the Model Context Protocol wait: they hear how to come to their answer."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from serve_play import Process, project
from whose_routes.mcp import ACCEPT, ENVELOPE, new_headers, request, told

ARGUMENTS = {"message": "slow", "session": "s", "message_id": "m"}
OLD = (ACCEPT, request("tools/call", name="ask", arguments=ARGUMENTS))
NEW = (new_headers("tools/call", "ask"), request("tools/call", name="ask", arguments=ARGUMENTS, _meta=ENVELOPE))


@pytest.mark.parametrize("asked", [OLD, NEW], ids=["old", "new"])
def test_an_answer_goes_on_in_another_process(tmp_path: Path, serve: Callable[..., Process], asked: Any) -> None:
    """E7."""
    folder = project(tmp_path, "gateway: {grace_seconds: 2}\n")
    (folder / "hold").touch()
    first, second = serve(folder), serve(folder)
    answers: list[httpx.Response] = []

    def ask(process: Process) -> None:
        with process.client() as client:
            answers.append(client.post("/mcp", headers=asked[0], json=asked[1]))

    waiting = threading.Thread(target=ask, args=(first,))
    waiting.start()
    with first.client() as client:
        while client.get("/api/v1/sessions/s/messages/m", params={"wait": False}).status_code == 404:
            time.sleep(0.02)
    first.told_to_stop()
    waiting.join()
    result = told(answers[0])["result"]
    assert result["isError"] is True
    assert result["_meta"]["turnwise/error"]["code"] == "request.closing"
    assert "session 's' and message_id 'm'" in result["content"][0]["text"]
    assert first.ended()[0] == 0
    (folder / "hold").unlink()
    ask(second)
    assert told(answers[1])["result"]["structuredContent"]["text"] == "one\ntwo\nthree"
