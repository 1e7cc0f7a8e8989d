"""Stores what was learned as drafts of definitions, which nothing serves until a person activates them (H4)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import JsonValue

from turnwise.config.definition_editor import DefinitionEditor
from turnwise.learning.proposals import Proposal
from turnwise.learning.tune import TunedOption
from turnwise.ports.definitions import SERVED_POLICY, AnyDefinition, Author, Definition, PolicyDefinition
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import NAMED
from turnwise.selection.policy import PolicySpec

_FIELDS = ("examples", "learned", "patterns")


class StoredDrafts(NamedTuple):
    """The drafts of a proposal."""

    stored: Sequence[AnyDefinition]
    unchanged: Sequence[AnyDefinition]
    """Drafts with the same content that were the newest versions already."""


async def store_drafts(editor: DefinitionEditor, cascade: Cascade, proposal: Proposal, author: Author) -> StoredDrafts:
    """Stores a proposal as drafts: one of each agent that changes, and one of the policy. Nothing serves them.

    A draft has the content that serves now, with the changes. The same proposal gives the same drafts.

    Args:
        editor: The definitions of the app.
        cascade: The agents and the policy that the proposal changes.
        proposal: The learned proposal.
        author: The author, with a note.

    Raises:
        DefinitionInvalid: A definition cannot be changed by this release.
        DefinitionConflict: Another writer was first.
    """
    drafts: list[AnyDefinition] = [await _agent(editor, cascade, proposal, name) for name in proposal.agents]
    if proposal.options:
        drafts.append(await _policy(editor, cascade.spec, proposal.options))
    newest = {(each.what, each.name): await editor.store.get(editor.app, each.what, each.name) for each in drafts}
    new = [each for each in drafts if not _is_same(newest[each.what, each.name], each)]
    unchanged = [found for key, found in newest.items() if found is not None and key not in {(n.what, n.name) for n in new}]
    expected = {key: found.version for key, found in newest.items() if found is not None}
    return StoredDrafts(await editor.put(new, expected, author) if new else (), unchanged)


async def _agent(editor: DefinitionEditor, cascade: Cascade, proposal: Proposal, name: str) -> Definition:
    """Returns the draft of one agent's definition with what was learned."""
    served = await editor.store.get_served(editor.app, "agent", name)
    base = served if isinstance(served, Definition) else Definition(name=name)
    card = cascade.tree.card(name)
    changed = proposal.card(card)
    fields = {field: getattr(changed, field) for field in _FIELDS if getattr(changed, field) != getattr(card, field)}
    return base.replace(status="draft", **fields)


async def _policy(editor: DefinitionEditor, spec: PolicySpec, options: Sequence[TunedOption]) -> PolicyDefinition:
    served = await editor.store.get_served(editor.app, "policy", SERVED_POLICY)
    written = served.policy if isinstance(served, PolicyDefinition) else written_policy(spec)
    return PolicyDefinition(name=SERVED_POLICY, status="draft", policy=changed_policy(written, spec, options))


def _is_same(newest: AnyDefinition | None, draft: AnyDefinition) -> bool:
    return newest is not None and (newest.status, newest.content) == (draft.status, draft.content)


def written_policy(spec: PolicySpec) -> dict[str, JsonValue]:
    """Returns a policy as it is written in a file: a named policy with what differs, or else all stages."""
    rest: dict[str, Any] = spec.model_dump(mode="json", include={"default", "several", "segments"}, exclude_defaults=True)
    named = NAMED.get(spec.name)
    if named is not None and [_kind(each) for each in named.stages] == [_kind(each) for each in spec.stages]:
        names = spec.stage_names()
        options = {
            name: {key: value for key, value in stage.options.items() if usual.options.get(key) != value}
            for name, stage, usual in zip(names, spec.stages, named.stages, strict=True)
        }
        changed = {name: found for name, found in options.items() if found}
        return {"use": spec.name, **({"options": changed} if changed else {}), **rest}
    stages = [stage.model_dump(mode="json", exclude_defaults=True) for stage in spec.stages]
    return {"name": spec.name, "stages": stages, **rest}


def _kind(stage: Any) -> tuple[str, str | None]:
    return stage.selector, stage.name


def changed_policy(written: JsonValue, spec: PolicySpec, options: Sequence[TunedOption]) -> dict[str, JsonValue]:
    """Returns a written policy with other options.

    Args:
        written: The policy as a definition has it.
        spec: The same policy as it was read.
        options: The options.
    """
    policy: dict[str, Any] = {"use": written} if isinstance(written, str) else _copied(written)
    for each in options:
        if each.segment is not None:
            place = [segment.label for segment in spec.segments].index(each.segment)
            _set(policy["segments"][place], each)
        elif "use" in policy:
            _set(policy, each)
        else:
            place = spec.stage_names().index(each.stage)
            stage: Any = policy["stages"][place]
            stage = {"selector": stage} if isinstance(stage, str) else stage
            stage.setdefault("options", {})[each.option] = each.value
            policy["stages"][place] = stage
    return policy


def _set(part: dict[str, Any], option: TunedOption) -> None:
    part.setdefault("options", {}).setdefault(option.stage, {})[option.option] = option.value


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list | tuple) else value
