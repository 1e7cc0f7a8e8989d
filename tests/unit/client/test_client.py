"""The client without a gateway. (With one: tests/integration/gateway.)"""

import json
import subprocess
import sys

import httpx
import pytest
from client_play import Script

from turnwise.client import Client
from turnwise.facts.content import BlobPart, Content, TextPart
from turnwise.facts.errors import ConfigError, RequestInvalid
from turnwise.facts.hints import install_command
from turnwise.facts.messages import MessageContext

ANSWER = {"session_id": "s", "message_id": "m-1", "invocation_id": "i-1", "state": "ended", "text": "hi"}


def client(script: Script) -> Client:
    return Client("http://gateway.test", key="tw_abc", http=script.http)


def good(value: object) -> httpx.Response:
    return httpx.Response(200, json=value)


async def test_a_message_has_an_id_of_its_own_or_gets_one() -> None:
    script = Script(good(ANSWER))
    answer = await client(script).send("s 1", "hi", id="m/1")
    assert answer.text == "hi"
    await client(script).send("s", "hi")
    await client(script).send("s", "hi")
    own, *others = [json.loads(request.content) for request in script.asked]
    assert own == {"content": "hi", "id": "m/1"}
    assert others[0]["id"].startswith("message-")
    assert others[0]["id"] != others[1]["id"]
    assert script.asked[0].url.raw_path == b"/api/v1/sessions/s%201/messages"


async def test_all_that_can_be_said_with_a_message() -> None:
    script = Script(good({**ANSWER, "state": "running"}))
    content = Content(parts=(TextPart(text="see"), BlobPart(data=b"\xff\x00", mime_type="image/png")))
    context = MessageContext(channel="mail", attributes={"customer": 7})
    await client(script).send("s", content, context=context, when_busy="reject", deadline_seconds=2.5, wait=False)
    (request,) = script.asked
    body = json.loads(request.content)
    assert Content.model_validate_json(json.dumps(body["content"])) == content
    assert MessageContext.model_validate_json(json.dumps(body["context"])) == context
    assert (body["when_busy"], body["deadline_seconds"]) == ("reject", 2.5)
    assert dict(request.url.params) == {"wait": "false"}


async def test_a_message_that_json_cannot_write_is_not_sent() -> None:
    script = Script(good(ANSWER))
    with pytest.raises(RequestInvalid, match="cannot be sent as JSON"):
        await client(script).send("s", "hi", context=MessageContext(attributes={"x": float("nan")}))
    assert script.asked == []


async def test_a_client_for_another_user_shares_the_connections() -> None:
    script = Script(good(ANSWER))
    one = client(script)
    other = one.for_user("bob")
    await one.send("s", "hi")
    await other.send("s", "hi")
    assert [request.url.params.get("user") for request in script.asked] == [None, "bob"]
    assert one.sessions is not other.sessions


@pytest.mark.parametrize("named", [{}, {"message_id": "m", "invocation_id": "i"}])
async def test_a_message_or_an_invocation_has_to_be_named(named: dict[str, str]) -> None:
    script = Script(good(ANSWER))
    with pytest.raises(RequestInvalid, match="Neither a message nor an invocation"):
        await client(script).find("s", message_id=named.get("message_id"), invocation_id=named.get("invocation_id"))
    with pytest.raises(RequestInvalid, match="Neither a message nor an invocation"):
        client(script).attach("s", message_id=named.get("message_id"), invocation_id=named.get("invocation_id"))
    assert script.asked == []


def test_what_cannot_be_an_address_or_a_key_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="no address"):
        Client("localhost:8000")
    with pytest.raises(ConfigError, match="key"):
        Client("http://localhost:8000", key="")


@pytest.mark.parametrize("missing", ["httpx", "httpx_sse"])
def test_without_the_libraries_the_extra_is_named(missing: str) -> None:
    program = f"""
import sys
sys.modules[{missing!r}] = None
from turnwise.client import Client
from turnwise.facts.errors import MissingExtra
try:
    Client("http://127.0.0.1:8000")
except MissingExtra as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert "The client needs an optional library" in done.stdout
    assert install_command(["client"]) in done.stdout


def test_a_client_is_light() -> None:
    """Whoever only talks to a gateway loads neither the gateway, nor the runner, nor what they stand on."""
    program = """
import sys
import turnwise.client
heavy = ("httpx", "fastapi", "starlette", "sqlalchemy", "numpy", "turnwise.gateway", "turnwise.runner", "turnwise.agents")
print(*(name for name in heavy if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ""
