"""Instructions with places for what the state and the artifacts hold."""

import json
import re
from collections.abc import Mapping

from turnwise.facts.errors import AgentFailed
from turnwise.ports.context import Artifacts, State
from turnwise.ports.stores import Artifact

_ARTIFACT = "artifact."
_NAME = r"(?:user:)?\w[\w./-]*(?: [\w./-]+)*"
_KEY = rf"(?:artifact\.{_NAME}|(?:app:|user:|temp:)?[A-Za-z_][\w.-]*)"
_PLACE = re.compile(rf"\{{\{{({_KEY}\??)\}}\}}|\{{({_KEY})(\??)\}}")


def filled(template: str, state: State, agent: str, artifacts: Mapping[str, str] | None = None) -> str:
    """The template with the state's values in place of `{key}`; texts as they are, everything else as JSON.

    `{artifact.name}` stands for the text of `artifacts`. `{key?}` is empty when there is no such key, `{{key}}` stands for
    `{key}` itself; any other brace is left alone. What is filled in is not looked at again. AgentFailed names a key, or an
    artifact, that is missing.
    """
    texts = artifacts or {}

    def fill(match: re.Match[str]) -> str:
        escaped, key, optional = match.groups()
        if escaped is not None:
            return f"{{{escaped}}}"
        name = _artifact_of(key)
        value = state.get(key) if name is None else texts.get(name)
        if value is None and not optional:
            raise _missing(key, name, agent)
        if value is None:
            return ""
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return _PLACE.sub(fill, template)


async def texts_of(template: str, artifacts: Artifacts, agent: str) -> dict[str, str]:
    """The texts of the artifacts that the template names, by name; without those that do not exist.

    AgentFailed for an artifact that is no text. ConfigError when the app has no artifact store.
    """
    found = (_artifact_of(match[2]) for match in _PLACE.finditer(template) if match[2])
    loaded = {name: await artifacts.load(name) for name in dict.fromkeys(found) if name is not None}
    return {name: _text(artifact, agent) for name, artifact in loaded.items() if artifact is not None}


def _artifact_of(key: str) -> str | None:
    """The artifact that the key names; None for a key of the state."""
    return key.removeprefix(_ARTIFACT) or None if key.startswith(_ARTIFACT) else None


def _missing(key: str, artifact: str | None, agent: str) -> AgentFailed:
    what = f"state key {key!r}, which is not set" if artifact is None else f"artifact {artifact!r}, which does not exist"
    first = "Set it" if artifact is None else "Save it"
    fix = f"{first}, write {{{key}?}} if it may be missing, or {{{{{key}}}}} if these braces are meant."
    return AgentFailed(f"The instructions of agent {agent!r} name the {what}.", fix=fix)


def _text(artifact: Artifact, agent: str) -> str:
    try:
        return artifact.data.decode("utf-8")
    except UnicodeDecodeError:
        raise AgentFailed(
            f"The instructions of agent {agent!r} name the artifact {artifact.info.name!r}, which is no text.",
            fix="Name an artifact that holds text in UTF-8.",
        ) from None
