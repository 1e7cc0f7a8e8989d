"""Experiments over definitions in the database (behaviours F3, H7)."""

from pathlib import Path

import pytest
from cli_play import written

from turnwise.assemble import load_app
from turnwise.facts.ids import SystemIssuer
from turnwise.matching.disk_cache import VARIABLE
from turnwise.ports.definitions import Author, PolicyDefinition

CONFIGURATION = """
app: test
root: desk
agents: ['definition_agents:desk', 'definition_agents:parcels']
store: 'sqlite:///{folder}/x.db'
policy: {{stages: [direct], default: desk}}
policies:
  fresh: {{stages: [direct], default: desk}}
experiments: {{name: trial, arms: {{today: {{}}, fresh: {{policy: fresh}}}}, paired: false}}
"""


async def test_a_definition_takes_the_place_of_the_policy_of_an_arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The app's own policy stays; only the arm's sessions are decided by the new version."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    written(tmp_path, CONFIGURATION.format(folder=tmp_path))
    app = load_app(tmp_path)
    try:
        await app.serve_definitions()
        assert app.runner.sets.current.policy("fresh").spec.default == "desk"
        assert app.editor is not None
        new = PolicyDefinition(name="fresh", policy={"stages": ["direct"], "default": "parcels"})
        await app.editor.put([new], {("policy", "fresh"): 0}, Author("test", SystemIssuer().now()))
        await app.serve_definitions()
        found = set()
        for number in range(12):
            invocation = await app.runner.start("hi", user="ada", session=str(number))
            selection = (await invocation.result()).selection
            assert selection is not None
            found.add((selection.arm, selection.agent))
        assert found == {("today", "desk"), ("fresh", "parcels")}
    finally:
        await app.runner.close()
