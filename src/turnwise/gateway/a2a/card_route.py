"""`GET /.well-known/agent-card.json`: the card for anybody, who may keep it a while."""

import json
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any

from fastapi import APIRouter, Request, Response

from turnwise.facts.ids import SystemIssuer
from turnwise.gateway.a2a.calling import base_of
from turnwise.gateway.a2a.card import public_card
from turnwise.gateway.a2a.values import plain
from turnwise.gateway.api.ranges import etag_of, is_known
from turnwise.gateway.front import Front, TheFront

PATH = "/.well-known/agent-card.json"
MODIFIED = SystemIssuer().now().replace(microsecond=0)
"""Agents and settings are those with which this process began."""

_MADE = "a2a_card"

router = APIRouter(include_in_schema=False)


@router.get(PATH)
@router.head(PATH)
async def get_card(request: Request, front: TheFront) -> Response:
    """The card; nothing of it for who has it."""
    body = json.dumps(_card(request, front), sort_keys=True).encode()
    headers = {
        "Cache-Control": f"public, max-age={front.config.protocols.a2a.card_seconds}",
        "ETag": etag_of(body),
        "Last-Modified": format_datetime(MODIFIED, usegmt=True),
    }
    if front.config.public_url is None:
        headers["Vary"] = "Host"
    if _is_known(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type="application/json")


def _card(request: Request, front: Front) -> dict[str, Any]:
    """The card for who asks. All but its URLs is made once: anybody can ask, and there may be thousands of agents."""
    state = request.app.state
    if not hasattr(state, _MADE):
        setattr(state, _MADE, plain(public_card(front, "")))
    card: dict[str, Any] = getattr(state, _MADE)
    base, interfaces = base_of(request, front), card["supportedInterfaces"]
    return card | {"supportedInterfaces": [each | {"url": base + each["url"]} for each in interfaces]}


def _is_known(request: Request, etag: str) -> bool:
    """Whether who asks has it. What it is counts more than since when it is so."""
    known, since = request.headers.get("if-none-match"), request.headers.get("if-modified-since")
    if known is not None:
        return is_known(known, etag)
    try:
        return since is not None and parsedate_to_datetime(since) >= MODIFIED
    except (ValueError, TypeError):  # no date, or one without a zone
        return False
