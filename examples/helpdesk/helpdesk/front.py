"""The root of the desks: with the model that HELPDESK_MODEL names behind all of them, or without any."""

import os

from helpdesk.agents.supervisor import supervisor
from turnwise.agents import Agent


def _desk(model: str) -> Agent:
    if not model:
        return supervisor
    from helpdesk.thinking import with_model  # needs the extra `llm`

    return with_model(supervisor, model)


desk = _desk(os.environ.get("HELPDESK_MODEL", ""))
