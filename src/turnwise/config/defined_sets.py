"""Makes the sets of agents that serve: code and configuration with the definitions of one revision."""

from collections.abc import Callable

from turnwise.agents.collect import collect
from turnwise.config.defined_agents import DefinedAgents
from turnwise.config.policies import ModelSpecs, read_defined_policy
from turnwise.facts.definitions import SERVED_POLICY, PolicyDefinition
from turnwise.facts.tree import AgentTree
from turnwise.ports.definitions import Definitions, DefinitionSet
from turnwise.runner.agent_sets import AgentSet
from turnwise.selection.cascade import Cascade
from turnwise.selection.policy import PolicySpec

BindPolicy = Callable[[PolicySpec, AgentTree], Cascade]
"""Binds a policy to a tree, with the app's selectors and encoder."""


class DefinedSets:
    """Makes the sets of an app.

    Args:
        store: Stores the definitions.
        app: The app's name.
        agents: Applies definitions to the agents in code.
        policy: The policy of the configuration. It decides while no policy definition serves.
        models: The models that policies may name.
        bind: Binds a policy to a tree.
    """

    def __init__(
        self, store: Definitions, app: str, agents: DefinedAgents, policy: PolicySpec, models: ModelSpecs, bind: BindPolicy
    ) -> None:
        self._store, self._app, self._agents = store, app, agents
        self._policy, self._models, self._bind = policy, models, bind

    async def make(self, revision: int | None = None) -> AgentSet:
        """Returns the set of a revision; None = the newest one.

        Raises:
            TurnwiseError: The definitions do not fit together, or an agent cannot be made.
            StoreError: The definitions cannot be read now.
        """
        return self.of(await self._store.served(self._app, at=revision))

    def of(self, definitions: DefinitionSet) -> AgentSet:
        """Returns the set of these definitions. Raises TurnwiseError."""
        applied = self._agents.apply(definitions.agents)
        agents, tree = collect(applied.root)
        served = next((each for each in definitions.policies if each.name == SERVED_POLICY), None)
        cascade = self._bind(self._policy_of(served), tree)
        return AgentSet(agents, tree, cascade, definitions.revision)

    def check_policy(self, definition: PolicyDefinition | None, tree: AgentTree) -> None:
        """Raises a ConfigError unless the policy, or that of the configuration, can decide over the tree's agents."""
        self._bind(self._policy_of(definition), tree).close()

    def _policy_of(self, definition: PolicyDefinition | None) -> PolicySpec:
        if definition is None or definition.unknown_fields:
            return self._policy
        return read_defined_policy(definition, self._models)
