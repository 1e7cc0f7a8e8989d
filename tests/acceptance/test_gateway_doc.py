"""The section `gateway` in docs/configuration.md: every key, with its default."""

import json
import re
from pathlib import Path

import yaml

from turnwise.facts.gateway import GatewayConfig, Protocols

ROOT = Path(__file__).resolve().parents[2]


def test_all_that_can_be_configured_is_listed_with_its_default() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    sections = [yaml.safe_load(block).get("gateway") for block in re.findall(r"^```yaml\n(.*?)^```$", page, re.M | re.S)]
    usual, entering = (section for section in sections if section)
    everything = json.loads(GatewayConfig().model_dump_json())
    del everything["auth"], everything["public_url"], everything["protocols"]
    switches, told = GatewayConfig().protocols, usual.pop("protocols")
    assert usual == everything
    assert set(told) == set(Protocols.model_fields)
    for name, said in told.items():
        switch = getattr(switches, name)
        assert type(switch)(**({} if said is True else said)).replace(on=None) == switch
    jwt = entering["auth"]["jwt"]
    defaults = {"user_claim", "role_claim", "agent_roles_claim", "leeway_seconds"}
    config = GatewayConfig.model_validate(entering, strict=False)
    assert config.auth is not None
    assert config.auth.jwt is not None
    unset = type(config.auth.jwt)()
    assert {name: jwt[name] for name in defaults} == {name: getattr(unset, name) for name in defaults}
    assert set(jwt) == set(type(unset).model_fields) - {"jwks_url"}
