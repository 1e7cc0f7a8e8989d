"""Routes that read and change the definitions of agents and policies. Operators read, admins write."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from fastapi import Body, Path, Response
from pydantic import JsonValue

from turnwise.gateway.api.errors import problems
from turnwise.gateway.api.parameters import After, AgentId, Limit, RequiredIfMatch, mark_version
from turnwise.gateway.front import TheServices
from turnwise.gateway.openapi import LOCATION, Responses, api_router
from turnwise.gateway.services import Services
from turnwise.gateway.services.definitions import Bounds
from turnwise.gateway.services.session_admission import Expected
from turnwise.ports.definitions import AnyDefinition, DefinitionKind
from turnwise.wire.definitions import (
    ActivateVersion,
    AddExample,
    AddPattern,
    DefinitionChangePage,
    DefinitionChangeShown,
    DefinitionPage,
    DefinitionShown,
    RollBackVersion,
    TrialShown,
    TryVersion,
)
from turnwise.wire.messages import PLAIN

router = api_router("definitions")

_TAG = {"ETag": {"description": "The definition's newest version, for `If-Match`.", "schema": {"type": "string"}}}
_CONTENT = """The content of the definition, with the keys that `turnwise agents export` writes, and optionally `status`
(`active` or `draft`) and `note`. `version`, `revision`, `author` and `created_at` are ignored."""
_EXAMPLE = {"description": "Invoices and payments.", "examples": ["Where is my invoice?"], "note": "People ask for it."}

_Content = Annotated[dict[str, JsonValue], Body(description=_CONTENT, examples=[_EXAMPLE])]
_NewContent = Annotated[dict[str, JsonValue], Body(description=_CONTENT, examples=[{"name": "billing", **_EXAMPLE}])]
_Changes = Annotated[dict[str, JsonValue], Body(description="Keys to change. Null takes a key out.", examples=[_EXAMPLE])]
_Version = Annotated[int, Path(ge=1, le=2**53, description="The version.")]
_Kind = Annotated[Literal["agent", "policy"], Path(description="What is defined.")]
_PolicyId = Annotated[
    str, Path(min_length=1, max_length=64, pattern=PLAIN, description="The policy's name. The policy `main` decides.")
]


def _answers(*statuses: int, ok: int = 200, body: bool = True, headers: Mapping[str, Any] = MappingProxyType({})) -> Responses:
    return {**problems(*statuses, body=body), ok: {"headers": {**_TAG, **headers}}}


_CHANGED: Any = {"response_description": "The new version.", "responses": _answers(404, 409, 412, 428)}
_TRIED: Any = {"response_description": "What the version would change.", "responses": problems(404, body=True)}


def _respond(definition: AnyDefinition, response: Response) -> DefinitionShown:
    mark_version(response, definition.version)
    return _details(definition)


def _details(definition: AnyDefinition) -> DefinitionShown:
    """Returns one version of a definition as the API shows it."""
    return DefinitionShown(
        kind=definition.what,
        name=definition.name,
        version=definition.version,
        status=definition.status,
        revision=definition.revision,
        author=definition.author,
        created_at=definition.created_at,
        note=definition.note,
        content=definition.content,
        unknown_fields=list(definition.unknown_fields),
    )


@router.get("/definitions/changes", summary="List changes", response_description="A page of changes.", responses=problems(404))
async def list_definition_changes(services: TheServices, after: After = None, limit: Limit = 50) -> DefinitionChangePage:
    """Lists the audit log of definitions, newest first: who changed what, when and why."""
    page = await services.definitions.changes(after=after, limit=limit)
    changes = [
        DefinitionChangeShown(kind=each.what, **each.model_dump(mode="json", include=_OF_CHANGE), created_at=each.created_at)
        for each in page.items
    ]
    return DefinitionChangePage(changes=changes, next=page.next)


_OF_CHANGE = {*DefinitionChangeShown.model_fields} - {"kind", "created_at"}


@router.get("/definitions/{kind}", summary="List definitions", response_description="A page.", responses=problems(404))
async def list_definitions(kind: _Kind, services: TheServices, after: After = None, limit: Limit = 50) -> DefinitionPage:
    """Lists the newest version of each definition of that kind, by name, with drafts and retired ones."""
    page = await services.definitions.page(kind, after=after, limit=limit)
    return DefinitionPage(definitions=[_details(each) for each in page.items], next=page.next)


@router.post(
    "/agents",
    status_code=201,
    summary="Create a definition",
    response_description="The first version.",
    responses=_answers(404, 409, ok=201, headers=LOCATION),
)
async def create_agent_definition(body: _NewContent, services: TheServices, response: Response) -> DefinitionShown:
    """Defines an agent that has no definition yet: a new agent, or one in code whose card changes."""
    stored = await services.definitions.create("agent", body)
    response.headers["Location"] = f"/api/v1/agents/{stored.name}"
    return _respond(stored, response)


@router.put(
    "/agents/{agent_name:agent}",
    summary="Replace a definition",
    **_CHANGED,
)
async def replace_agent_definition(
    agent_name: AgentId, body: _Content, expected: RequiredIfMatch, services: TheServices, response: Response
) -> DefinitionShown:
    """Stores a new version of the agent's definition in place of the newest one. It serves within a second everywhere."""
    return _respond(await services.definitions.replace("agent", agent_name, body, expected), response)


@router.patch(
    "/agents/{agent_name:agent}",
    summary="Change a definition",
    **_CHANGED,
)
async def change_agent_definition(
    agent_name: AgentId, body: _Changes, expected: RequiredIfMatch, services: TheServices, response: Response
) -> DefinitionShown:
    """Stores the newest version with other values of the given keys. Lists are replaced as wholes."""
    return _respond(await services.definitions.change("agent", agent_name, body, expected), response)


@router.delete(
    "/agents/{agent_name:agent}",
    summary="Retire a definition",
    response_description="The version that retires it.",
    responses=_answers(404, 409, 412, 428, body=False),
)
async def retire_agent_definition(
    agent_name: AgentId, expected: RequiredIfMatch, services: TheServices, response: Response
) -> DefinitionShown:
    """Takes the definition out of service. An agent in code is then as in code; another one is gone. Its versions stay."""
    return _respond(await services.definitions.retire("agent", agent_name, expected), response)


@router.get(
    "/agents/{agent_name:agent}/versions", summary="List versions", response_description="A page.", responses=problems(404)
)
async def list_agent_versions(
    agent_name: AgentId, services: TheServices, after: After = None, limit: Limit = 50
) -> DefinitionPage:
    """Lists the versions of the agent's definition, newest first."""
    page = await services.definitions.history("agent", agent_name, after=after, limit=limit)
    return DefinitionPage(definitions=[_details(each) for each in page.items], next=page.next)


@router.get(
    "/agents/{agent_name:agent}/versions/{version}",
    summary="Get a version",
    response_description="The version.",
    responses=problems(404),
)
async def get_agent_version(agent_name: AgentId, version: _Version, services: TheServices) -> DefinitionShown:
    """Returns one version of the agent's definition."""
    return _details(await services.definitions.get("agent", agent_name, version))


@router.post(
    "/agents/{agent_name:agent}/activate",
    summary="Activate a version",
    **_CHANGED,
)
async def activate_agent_version(
    agent_name: AgentId, body: ActivateVersion, expected: RequiredIfMatch, services: TheServices, response: Response
) -> DefinitionShown:
    """Serves the content of a version, such as a draft, as a new version.

    With `min` or `max` the version is tried before, as by `try`. If a figure misses a bound, the answer is 409, and nothing
    is changed. The trial needs the permissions `decisions:read` and `decisions:label`, too.
    """
    return await _activate(services, "agent", agent_name, body, expected, response)


@router.post(
    "/agents/{agent_name:agent}/rollback",
    summary="Roll back",
    **_CHANGED,
)
async def roll_back_agent(
    agent_name: AgentId, body: RollBackVersion, expected: RequiredIfMatch, services: TheServices, response: Response
) -> DefinitionShown:
    """Serves an earlier version again as a new version."""
    stored = await services.definitions.roll_back("agent", agent_name, body.version, expected, body.note)
    return _respond(stored, response)


@router.post(
    "/agents/{agent_name:agent}/examples",
    summary="Add an example",
    **_CHANGED,
)
async def add_agent_example(
    agent_name: AgentId, body: AddExample, expected: RequiredIfMatch, services: TheServices, response: Response
) -> DefinitionShown:
    """Adds an example after those that the agent has, in code or by definition."""
    return _respond(await services.definitions.extend(agent_name, "examples", body.text, expected), response)


@router.post(
    "/agents/{agent_name:agent}/patterns",
    summary="Add a pattern",
    **_CHANGED,
)
async def add_agent_pattern(
    agent_name: AgentId, body: AddPattern, expected: RequiredIfMatch, services: TheServices, response: Response
) -> DefinitionShown:
    """Adds a pattern after those that the agent has, in code or by definition."""
    pattern = body.model_dump(mode="json")
    return _respond(await services.definitions.extend(agent_name, "patterns", pattern, expected), response)


@router.get(
    "/policies/{policy_name}",
    summary="Get a policy",
    response_description="The newest version.",
    responses=_answers(404, body=False),
)
async def get_policy_definition(policy_name: _PolicyId, services: TheServices, response: Response) -> DefinitionShown:
    """Returns the newest version of a policy's definition."""
    return _respond(await services.definitions.get("policy", policy_name), response)


@router.put(
    "/policies/{policy_name}",
    summary="Replace a policy",
    **_CHANGED,
)
async def replace_policy_definition(
    policy_name: _PolicyId, body: _Content, expected: RequiredIfMatch, services: TheServices, response: Response
) -> DefinitionShown:
    """Stores a new version of a policy. The policy `main` decides within a second everywhere."""
    return _respond(await services.definitions.replace("policy", policy_name, body, expected), response)


@router.patch(
    "/policies/{policy_name}",
    summary="Change a policy",
    **_CHANGED,
)
async def change_policy_definition(
    policy_name: _PolicyId, body: _Changes, expected: RequiredIfMatch, services: TheServices, response: Response
) -> DefinitionShown:
    """Stores the newest version of a policy with other values of the given keys."""
    return _respond(await services.definitions.change("policy", policy_name, body, expected), response)


@router.get(
    "/policies/{policy_name}/versions",
    summary="List versions of a policy",
    response_description="A page.",
    responses=problems(404),
)
async def list_policy_versions(
    policy_name: _PolicyId, services: TheServices, after: After = None, limit: Limit = 50
) -> DefinitionPage:
    """Lists the versions of a policy, newest first."""
    page = await services.definitions.history("policy", policy_name, after=after, limit=limit)
    return DefinitionPage(definitions=[_details(each) for each in page.items], next=page.next)


@router.get(
    "/policies/{policy_name}/versions/{version}",
    summary="Get a version of a policy",
    response_description="The version.",
    responses=problems(404),
)
async def get_policy_version(policy_name: _PolicyId, version: _Version, services: TheServices) -> DefinitionShown:
    """Returns one version of a policy."""
    return _details(await services.definitions.get("policy", policy_name, version))


@router.delete(
    "/policies/{policy_name}",
    summary="Retire a policy",
    response_description="The version that retires it.",
    responses=_answers(404, 409, 412, 428, body=False),
)
async def retire_policy(
    policy_name: _PolicyId, expected: RequiredIfMatch, services: TheServices, response: Response
) -> DefinitionShown:
    """Takes a policy out of service. Without the policy `main`, that of the configuration decides. Its versions stay."""
    return _respond(await services.definitions.retire("policy", policy_name, expected), response)


@router.post(
    "/policies/{policy_name}/activate",
    summary="Activate a version of a policy",
    **_CHANGED,
)
async def activate_policy_version(
    policy_name: _PolicyId, body: ActivateVersion, expected: RequiredIfMatch, services: TheServices, response: Response
) -> DefinitionShown:
    """Serves the content of a version, such as a draft, as a new version; with `min` or `max` as for agents."""
    return await _activate(services, "policy", policy_name, body, expected, response)


@router.post(
    "/policies/{policy_name}/rollback",
    summary="Roll a policy back",
    **_CHANGED,
)
async def roll_back_policy(
    policy_name: _PolicyId, body: RollBackVersion, expected: RequiredIfMatch, services: TheServices, response: Response
) -> DefinitionShown:
    """Serves an earlier version of a policy again as a new version."""
    stored = await services.definitions.roll_back("policy", policy_name, body.version, expected, body.note)
    return _respond(stored, response)


@router.post("/agents/{agent_name:agent}/try", summary="Try a version", **_TRIED)
async def try_agent_version(agent_name: AgentId, body: TryVersion, services: TheServices) -> TrialShown:
    """Decides recorded messages with what serves, and with a version such as a draft. No agent runs, and nothing is stored.

    Needs the permissions `decisions:read` and `decisions:label`, too.
    """
    return await _try_version(services, "agent", agent_name, body)


@router.post("/policies/{policy_name}/try", summary="Try a policy", **_TRIED)
async def try_policy_version(policy_name: _PolicyId, body: TryVersion, services: TheServices) -> TrialShown:
    """Decides recorded messages with what serves, and with a version of a policy. No agent runs, and nothing is stored.

    Needs the permissions `decisions:read` and `decisions:label`, too.
    """
    return await _try_version(services, "policy", policy_name, body)


async def _try_version(services: Services, what: DefinitionKind, name: str, body: TryVersion) -> TrialShown:
    trial = await services.definitions.try_version(what, name, body.version, labelled=body.labelled, limit=body.limit)
    return TrialShown.model_validate(trial.data())


async def _activate(
    services: Services, what: DefinitionKind, name: str, body: ActivateVersion, expected: Expected, response: Response
) -> DefinitionShown:
    bounds = Bounds(body.min, body.max, body.limit)
    return _respond(await services.definitions.activate(what, name, body.version, expected, body.note, bounds), response)
