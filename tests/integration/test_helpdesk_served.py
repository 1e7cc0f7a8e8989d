"""The help desk over HTTP, as its README says."""

import re
import shlex
import signal
from pathlib import Path

from gateway_play import events_in
from helpdesk_play import HELPDESK
from serve_play import Process

ROOT = Path(__file__).resolve().parents[2]


def test_the_desk_is_served_as_its_page_says(tmp_path: Path) -> None:
    page = (HELPDESK / "README.md").read_text("utf-8")
    (command,) = re.findall(r"^    curl (.*?)\n\n", page, re.MULTILINE | re.DOTALL)
    url, _, header, _, body = shlex.split(command.replace("\\\n", ""))
    kept = {"HELPDESK_DB": "shop.db", "HELPDESK_SESSIONS": "sessions.db", "HELPDESK_ARTIFACTS": "artifacts"}
    environment = {name: str(tmp_path / file) for name, file in kept.items()}
    process = Process(HELPDESK, environment=environment | {"HELPDESK_NOW": "2026-11-19T10:00", "HELPDESK_MODEL": ""})
    try:
        name, value = header.split(": ")
        path = url.removeprefix("http://127.0.0.1:8000")
        with process.client() as client:
            answer = client.post(path, content=body, headers={name: value}).json()
            stream = client.post(path, content=body, headers={name: value, "Accept": "text/event-stream"}).text
        assert answer["selection"]["agent"] == "orders"
        assert "A-10412" in answer["text"]
        assert events_in(stream)[-1][0] == "answer"
        process.told_to_stop(signal.SIGINT)
        assert process.ended()[0] == 0
    finally:
        process.kill()


def test_dev_serves_it() -> None:
    script = (ROOT / "dev").read_text("utf-8")
    verb = script[script.index("\nserve)") :].partition(";;")[0]
    assert "cd examples/helpdesk" in verb
    assert 'turnwise serve "$@"' in verb
