"""What was learned is stored as drafts, which nothing serves until they are activated (behaviours H4, C11)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from turnwise import SqlSessionStore, agent
from turnwise.config.agent_factory import AgentFactory, Registered
from turnwise.config.defined_agents import DefinedAgents
from turnwise.config.definition_editor import DefinitionEditor
from turnwise.config.learned_drafts import changed_policy, store_drafts, written_policy
from turnwise.config.policies import read_defined_policy
from turnwise.facts.content import text_content
from turnwise.facts.sessions import Head
from turnwise.facts.tree import AgentTree, LearnedExample, Pattern
from turnwise.learning.proposals import Proposal
from turnwise.learning.tune import TunedOption, with_tuned
from turnwise.ports.definitions import Author, Definition, PolicyDefinition
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import named_policy
from turnwise.selection.policy import PolicySpec, SegmentSpec, StageSpec, policy_from
from turnwise.testing.fake_encoder import BagOfWordsEncoder

ANN = Author("ann", datetime(2026, 1, 1, tzinfo=UTC), "Learned.")
SECRET = "the blue gadget of my aunt is broken"
LEARNED = Proposal(
    {"orders": (LearnedExample(text=SECRET, user="ada", session="s", sequence=1),)},
    {"orders": ("track it",)},
    {"orders": {"order": 0.6}},
    (TunedOption("contextual", "nobody", 0.4),),
)
PHONE = SegmentSpec(name="phone", when={"channel": ("phone",)}, options={"contextual": {"margin": 0.2}}, default="orders")


@pytest.fixture
def desk() -> DefinedAgents:
    patterns = (Pattern(regex="order", confidence=0.9),)
    orders = agent(name="orders", examples=("where is my parcel", "track it"), patterns=patterns)(lambda: "ok")
    billing = agent(name="billing", examples=("send the invoice", "the bill is wrong"))(lambda: "ok")
    return DefinedAgents(agent(name="desk", children=[orders, billing])(lambda: "Hello"), AgentFactory(Registered()))


@pytest.fixture
def store() -> Iterator[SqlSessionStore]:
    store = SqlSessionStore("sqlite://")
    yield store
    asyncio.run(store.close())


def editor_of(desk: DefinedAgents, store: SqlSessionStore) -> DefinitionEditor:
    def tried(_definition: PolicyDefinition | None, tree: AgentTree) -> Cascade:
        return Cascade(named_policy("default"), tree, encoder=BagOfWordsEncoder())

    return DefinitionEditor(store.definitions, "app", desk, tried)


@asynccontextmanager
async def deciding(desk: DefinedAgents, editor: DefinitionEditor) -> AsyncIterator[Cascade]:
    """The cascade of what serves."""
    served = await editor.store.served("app")
    policy = named_policy("default")
    for each in served.policies:
        policy = read_defined_policy(each, {})
    cascade = Cascade(policy, desk.tree_of(served.agents), encoder=BagOfWordsEncoder())
    await cascade.prepare()
    yield cascade
    cascade.close()


async def test_drafts_serve_nothing_until_they_are_activated(desk: DefinedAgents, store: SqlSessionStore) -> None:
    """H4: the draft has what serves and the changes; the next one with the same content is no new version."""
    editor = editor_of(desk, store)
    async with deciding(desk, editor) as before:
        drafts = await store_drafts(editor, before, LEARNED, ANN)
        again = await store_drafts(editor, before, LEARNED, ANN)
    assert [(each.what, each.name, each.version, each.status) for each in drafts.stored] == [
        ("agent", "orders", 1, "draft"),
        ("policy", "main", 1, "draft"),
    ]
    assert (again.stored, [each.version for each in again.unchanged]) == ((), [1, 1])
    assert await editor.store.served("app") == (1, (), (), ())
    assert drafts.stored[0].author == "ann"

    await editor.activate("agent", "orders", 1, 1, ANN)
    await editor.activate("policy", "main", 1, 1, ANN)
    async with deciding(desk, editor) as after:
        card = after.tree.card("orders")
        assert (card.examples, card.learned) == (("where is my parcel",), LEARNED.add["orders"])
        assert (card.patterns[0].confidence, after.options()["contextual"]["nobody"]) == (0.6, 0.4)  # type: ignore[call-overload, index]
        decided = await after.decide(head=Head(), message=text_content("the blue gadget of my aunt is broken again", "user"))
    assert decided.agent == "orders"
    assert "learned example" in decided.reason
    assert "aunt" not in decided.replace(request=None).model_dump_json(), "no record shows what another user wrote"


async def test_a_definition_that_serves_is_kept(desk: DefinedAgents, store: SqlSessionStore) -> None:
    """H4: other fields stay, and a named model of the policy is not replaced by what it stands for."""
    editor = editor_of(desk, store)
    policy = PolicyDefinition(policy={"use": "default", "options": {"contextual": {"margin": 0.3}}})
    await editor.put([Definition(name="orders", description="Parcels.", examples=("a", "track it")), policy], {}, ANN)
    async with deciding(desk, editor) as cascade:
        agent_draft, policy_draft = (await store_drafts(editor, cascade, LEARNED, ANN)).stored
    assert isinstance(agent_draft, Definition)
    assert (agent_draft.version, agent_draft.description, agent_draft.examples) == (2, "Parcels.", ("a",))
    assert isinstance(policy_draft, PolicyDefinition)
    assert policy_draft.policy == {"use": "default", "options": {"contextual": {"margin": 0.3, "nobody": 0.4}}}


@pytest.mark.parametrize(
    ("spec", "stage", "option"),
    [
        (named_policy("default"), "contextual", "nobody"),
        (named_policy("staples", options={"semantic": {"threshold": 0.6}}, default="orders"), "semantic", "threshold"),
        (named_policy("default").replace(segments=(PHONE,), several="desk"), "contextual", "nobody"),
        (policy_from({"stages": ["direct", {"selector": "patterns", "name": "first"}, "patterns"]}), "patterns", "threshold"),
        (PolicySpec(name="default", stages=(StageSpec(selector="contextual"),), segments=(PHONE,)), "contextual", "nobody"),
    ],
    ids=["named", "changed", "segments", "written", "named as another"],
)
def test_a_policy_is_written_as_it_is_read(spec: PolicySpec, stage: str, option: str) -> None:
    """C11, C18: and its options change in place, those of a segment in the segment."""
    written = written_policy(spec)
    assert read_defined_policy(PolicyDefinition(policy=written), {}) == spec
    options = [
        TunedOption(stage, option, 0.25),
        *(TunedOption("contextual", "nobody", 0.5, each.label) for each in spec.segments),
    ]
    changed = changed_policy(written, spec, options)
    assert read_defined_policy(PolicyDefinition(policy=changed), {}) == with_tuned(spec, options)
    assert written == written_policy(spec), "what was given stays as it is"
