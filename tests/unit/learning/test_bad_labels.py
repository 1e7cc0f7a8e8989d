"""Bad labels teach nothing that harms, and it is said why (behaviours H2, H5). Gains are on messages that no label is from."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from turnwise.facts.cards import AgentCard
from turnwise.facts.content import text_content
from turnwise.facts.sessions import Head
from turnwise.facts.tree import AgentTree
from turnwise.learning.labelled import Labelled
from turnwise.learning.learn import Learned, learn
from turnwise.learning.measures import chosen_of
from turnwise.selection.cascade import Cascade
from turnwise.selection.policy import policy_from
from turnwise.testing.fake_encoder import BagOfWordsEncoder

NAMES = ("garden", "kitchen", "cellar", "attic")
SEEDS = range(3)


class Village:
    """Agents that each have many words, of which their examples know only some, and messages with them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._words = {name: [f"{name}{number}" for number in range(12)] for name in NAMES}
        cards = [
            AgentCard(name=name, parent="root", examples=(" ".join(words[:3]), " ".join(words[2:5])))
            for name, words in self._words.items()
        ]
        tree = AgentTree([AgentCard(name="root"), *cards])
        policy = policy_from({"stages": [{"selector": "semantic", "options": {"threshold": 0.3}}]})
        self.cascade = Cascade(policy, tree, encoder=BagOfWordsEncoder())
        self.tested = self.messages(120)

    def messages(self, count: int) -> list[tuple[str, str]]:
        """Texts with the right agent. Some have a word of another agent, and all have one that means nothing."""
        found = []
        for _ in range(count):
            name = self.chance.choice(NAMES)
            others = [
                self.chance.choice(self._words[each]) for each in self.chance.sample(NAMES, 1) if self.chance.random() < 0.3
            ]
            words = [*self.chance.sample(self._words[name], 3), *others, f"filler{self.chance.randrange(30)}"]
            self.chance.shuffle(words)
            found.append((" ".join(words), name))
        return found

    async def labelled(self, count: int, **fields: object) -> list[Labelled]:
        """Messages of as many users, with the right labels."""
        pairs = self.messages(count)
        chosen = await self.chosen(self.cascade, [text for text, _ in pairs])
        return [
            replace(Labelled(text=text, expected=name, chosen=agent, user=f"u{at}", session="s", at=float(at)), **fields)  # type: ignore[arg-type]
            for at, ((text, name), agent) in enumerate(zip(pairs, chosen, strict=True))
        ]

    async def chosen(self, cascade: Cascade, texts: Sequence[str]) -> list[str | None]:
        return [chosen_of(await cascade.decide(head=Head(), message=text_content(text, "user")), "root") for text in texts]

    async def right(self, cascade: Cascade) -> float:
        chosen = await self.chosen(cascade, [text for text, _ in self.tested])
        return sum(agent == name for agent, (_, name) in zip(chosen, self.tested, strict=True)) / len(self.tested)

    async def learned(self, labelled: Sequence[Labelled]) -> tuple[float, Learned]:
        """Returns the gain on the tested messages, and what was learned."""
        self.said = labelled
        await self.cascade.prepare()
        found = await learn(self.cascade, _Said(self, labelled))
        if found.proposal is None:
            return 0.0, found
        async with found.proposal.cascade(self.cascade) as changed:
            return await self.right(changed) - await self.right(self.cascade), found


class _Said:
    def __init__(self, village: Village, labelled: Sequence[Labelled]) -> None:
        self._village, self.labelled = village, labelled

    async def choices(self, cascade: Cascade, which: Sequence[int]) -> list[str | None]:
        return await self._village.chosen(cascade, [self.labelled[index].text for index in which])


@pytest.mark.parametrize("seed", SEEDS)
async def test_good_labels_teach(seed: int) -> None:
    """H3: what the others of this file could lose by."""
    village = Village(seed)
    gain, found = await village.learned(await village.labelled(120))
    assert gain > 0.02, found.refusal


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_flood_by_one_user_teaches_nothing(seed: int) -> None:
    """H5: hundreds of labels that send everything to one agent, beside honest ones of many users."""
    village = Village(seed)
    honest = await village.labelled(60, by_operator=False)
    flood = await village.labelled(300, by_operator=False, user="mallory", expected="attic")
    gain, found = await village.learned([*honest, *flood])
    assert gain >= -0.002
    assert found.left_out["over the cap of its source"] >= 290


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_credential_that_names_many_users_teaches_nothing(seed: int) -> None:
    """H2, H5: the cap is the credential's, whoever it names; alone it has nothing to learn from."""
    village = Village(seed)
    flood = await village.labelled(300, by_operator=False, author="stolen key", expected="attic")
    gain, found = await village.learned(flood)
    assert (gain, found.proposal) == (0.0, None)
    assert found.left_out["over the cap of its source"] == 295
    assert "at least 10 and 15 are needed" in found.refusal
    honest = await village.labelled(60, by_operator=False, author="")
    gain, found = await village.learned([*honest, *flood])
    assert gain >= -0.002


@pytest.mark.parametrize("seed", SEEDS)
async def test_contradictory_labels_teach_nothing(seed: int) -> None:
    """H5: two users say different things of the same words."""
    village = Village(seed)
    once = await village.labelled(80, by_operator=False)
    other = [replace(each, user=f"{each.user}-2", expected=village.chance.choice(NAMES)) for each in once]
    gain, found = await village.learned([*once, *other])
    assert gain >= -0.002
    differ = sum(one.expected != two.expected for one, two in zip(once, other, strict=True))
    assert found.left_out["contradictory"] >= 2 * differ


@pytest.mark.parametrize("seed", SEEDS)
async def test_labels_of_agents_that_are_gone_do_not_count(seed: int) -> None:
    """H5: neither to learn from, nor to judge with."""
    village = Village(seed)
    labelled = await village.labelled(120)
    some = [replace(each, expected="closed") if number % 2 else each for number, each in enumerate(labelled)]
    gain, found = await village.learned(some)
    assert gain >= -0.002
    assert found.left_out["agent is gone"] == 60
    assert found.learned_from + found.judged_by <= 60


@pytest.mark.parametrize("seed", SEEDS)
async def test_ten_labels_and_labels_of_one_class_teach_nothing(seed: int) -> None:
    """H5: and each is refused for its own reason."""
    village = Village(seed)
    assert "at least 10 and 15 are needed" in (await village.learned(await village.labelled(10)))[1].refusal
    one = await village.learned(await village.labelled(80, expected="attic"))
    assert "All labels name the same agent" in one[1].refusal
