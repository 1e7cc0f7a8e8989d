"""Makes the sets of agents that serve: code and configuration with the definitions of one revision."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from turnwise.config.defined_agents import DefinedAgents
from turnwise.config.kept_definitions import KeptDefinitions
from turnwise.config.policies import ModelSpecs, read_defined_policy
from turnwise.config.served_definitions import ServedDefinitions
from turnwise.facts.tree import AgentTree
from turnwise.ports.definitions import SERVED_POLICY, Definitions, DefinitionSet, PolicyDefinition
from turnwise.runner.agent_sets import AgentSet
from turnwise.selection.alternatives import alternatives
from turnwise.selection.background_work import background_work
from turnwise.selection.cascade import Cascade
from turnwise.selection.policy import PolicySpec


class BindPolicy(Protocol):
    """Binds a policy to a tree, with the app's selectors and encoder. Shares what earlier agents had in memory.

    With `aside`, the agents are only tried: preparing and closing the cascade does not touch those that serve.
    """

    def __call__(self, spec: PolicySpec, tree: AgentTree, *, aside: bool = False) -> Cascade: ...


class ConfiguredPolicies(NamedTuple):
    """The policies of the configuration."""

    served: PolicySpec
    """It decides while no policy definition serves."""
    others: Mapping[str, PolicySpec] = {}
    """The policies that arms and shadows may name."""
    arms: Sequence[str] = ()
    """The names of the policies that the configured experiment's arms name."""


class DefinedSets:
    """Makes the sets of an app. Implements `runner.revision_watch.SetSource`.

    Args:
        store: Stores the definitions.
        app: The app's name.
        agents: Applies definitions to the agents in code.
        policies: The policies of the configuration. A policy definition of the same name takes precedence.
        models: The models that policies may name.
        bind: Binds a policy to a tree.
        kept: Where this machine keeps the definitions that it served last; None = nowhere.
    """

    def __init__(
        self,
        store: Definitions,
        app: str,
        agents: DefinedAgents,
        policies: ConfiguredPolicies,
        models: ModelSpecs,
        bind: BindPolicy,
        kept: KeptDefinitions | None = None,
    ) -> None:
        self._store, self._app, self._agents = store, app, agents
        self._policies, self._models, self._bind, self._kept = policies, models, bind, kept
        self._lock = threading.Lock()
        self.served = ServedDefinitions(store, app)
        self._made = self.served.known

    async def revision(self) -> int:
        """Returns the newest revision; 0 if nothing was ever stored. Raises StoreError."""
        return await self._store.revision(self._app)

    async def make(self, revision: int | None = None) -> AgentSet:
        """Returns the set of a revision; None = the newest one. Reads only what changed since the newest set before.

        Raises:
            TurnwiseError: The definitions do not fit together, or an agent cannot be made.
            StoreError: The definitions cannot be read now.
        """
        if revision is not None:
            definitions = await self._store.served(self._app, at=revision)
        else:
            definitions = self._made = await self.served.read()
        return await asyncio.to_thread(self.of, definitions)

    def of(self, definitions: DefinitionSet) -> AgentSet:
        """Returns the set of these definitions. Raises TurnwiseError."""
        with self._lock, background_work():
            applied = self._agents.apply(definitions.agents)
            tree = applied.tree
            served = next((each for each in definitions.policies if each.name == SERVED_POLICY), None)
            cascade = self._bind(self._policy_of(served), tree)
            wanted = {*self._policies.arms, *self._policies.others, cascade.spec.shadow}
            defined = self._defined([each for each in definitions.policies if each.name in wanted])
            others = alternatives(cascade, self._policies.arms, {**self._policies.others, **defined})
            retired = self.served.retired - {card.name for card in tree}
            return AgentSet(applied.agents, tree, cascade, definitions.revision, retired, others)

    async def last_known(self) -> AgentSet | None:
        """Returns the set that this machine served last; None = it kept none. Raises TurnwiseError."""
        kept = None if self._kept is None else await asyncio.to_thread(self._kept.read)
        return None if kept is None else await asyncio.to_thread(self.of, kept)

    async def keep(self) -> None:
        """Keeps the newest definitions for `last_known`."""
        if self._kept is not None:
            await asyncio.to_thread(self._kept.write, self._made)

    def tried(self, definition: PolicyDefinition | None, tree: AgentTree) -> Cascade:
        """Returns the policy, or that of the configuration, bound to these agents only to try them.

        Raises:
            ConfigError: The policy cannot decide over the agents.
        """
        return self._bind(self._policy_of(definition), tree, aside=True)

    def _defined(self, definitions: Sequence[PolicyDefinition]) -> dict[str, PolicySpec]:
        """Returns the policies of definitions, by name."""
        return {each.name: read_defined_policy(each, self._models) for each in definitions if not each.unknown_fields}

    def _policy_of(self, definition: PolicyDefinition | None) -> PolicySpec:
        if definition is None or definition.unknown_fields:
            return self._policies.served
        return read_defined_policy(definition, self._models)
