"""A stage that goes by meaning, over agents that say nothing of themselves."""

from turnwise.facts.selections import Verdict
from turnwise.facts.tree import AgentTree
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.verdicts import abstained


def has_words(tree: AgentTree, default: str | None = None) -> bool:
    """Whether any agent says in words what it is for, by examples, skills or a description: a name alone is an accident.

    What the default agent (None: the root) and agents above others say of themselves is no such thing; their examples are.
    """
    quiet = {default or tree.root, *(card.parent for card in tree if card.parent and not tree.card(card.parent).is_composite)}
    return any(
        card.examples
        or any(skill.examples for skill in card.skills)
        or (card.name not in quiet and (card.skills or card.description.strip()))
        for card in tree
    )


class Silent:
    """Abstains, and needs no encoder for it. named_agents: the agents that its stage names."""

    def __init__(self, name: str, named_agents: tuple[str, ...] = ()) -> None:
        self.name = name
        self.named_agents = named_agents

    async def select(self, request: SelectionRequest) -> Verdict:
        return abstained(self.name, "No agent has examples, skills or a description to go by.")
