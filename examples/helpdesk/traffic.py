"""Plays customers of the help desk, and an operator who labels what was decided: for the walk-through in docs/learning.md.

python traffic.py play --users 150    # each writes one or two messages
python traffic.py label --labels 100  # the operator says which agent should have answered, the least sure decisions first

Run it in this folder, or in a copy of it. The messages go to the sessions of turnwise.yaml. The same seed plays the same
messages.
"""

import argparse
import asyncio
import random
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from turnwise import App, SessionKey, load_app  # noqa: E402

OPERATOR, RANDOM_SHARE = "operator", 0.1
SAID = {
    "orders": (
        "the van drove past my house and did not stop",
        "the brown lorry left a note on my door",
        "my neighbours have theirs and I have nothing",
        "the map says it is still in Rotterdam",
    ),
    "returns": (
        "the Fjord wobbles on my table",
        "it is much too yellow for my room",
        "my wife already has the same one",
        "you packed a size that nobody wears",
    ),
    "warranty": (
        "the motor hums and nothing turns",
        "the Fjord went dark after one winter",
        "it smells burnt when I plug it in",
        "the hinge snapped after a year",
    ),
    "billing": (
        "my bank shows you twice this month",
        "the sum on my statement is odd",
        "my boss needs a paper for the taxes",
        "forty dollars are gone and I bought nothing",
    ),
    "account": (
        "my Kringles are all gone",
        "how many Kringles do I have",
        "we have a new house since June",
        "my street has another name now",
    ),
    "gift_cards": (
        "grandma gave me one of those plastic things for your shop",
        "the silver numbers on the back do not work",
        "is there still something on my voucher",
    ),
    "stores": (
        "can I drop by after work tonight",
        "is anybody there on Boxing Day",
        "where do I park when I come to you",
    ),
    "products": (
        "I need something that keeps soup warm at my desk",
        "what do you have against draughts under the door",
        "do you carry the big Fjord",
    ),
}
FORMS = (
    "{}",
    "hello, {}",
    "{}, what now?",
    "hi there, {}",
    "{}, can you help me",
    "well, {}",
    "good evening, {}",
    "{}, please help",
    "so {}, you see",
    "I do not know what to do: {}",
    "{} and I am not amused",
    "my problem is this: {}",
)
RIGHT = {form.format(text): agent for agent, texts in SAID.items() for text in texts for form in FORMS}


async def play(app: App, users: int, seed: int) -> None:
    """Each user writes one message, every third another one on another day."""
    chance, messages = random.Random(seed), list(RIGHT)
    for number in range(users):
        for session in range(2 if number % 3 == 0 else 1):
            started = await app.runner.start(
                chance.choice(messages), user=f"customer-{seed}-{number}", session=f"day-{session}"
            )
            await started.result()
    print(f"{users} customers wrote.")


async def label(app: App, labels: int, seed: int) -> None:
    """Labels unlabelled decisions on that seed's customers: a tenth at random, and else those with the lowest confidence."""
    chance, found, after = random.Random(seed), [], None
    while True:
        page = await app.runner.store.decisions.search(app.runner.app, after=after, limit=200)
        own = (each for each in page.items if each.key.user.startswith(f"customer-{seed}-"))
        found += [each for each in own if each.label is None and each.text in RIGHT]
        after = page.next
        if after is None:
            break
    chosen = chance.sample(found, min(len(found), round(RANDOM_SHARE * labels)))
    keys = {(each.key, each.sequence) for each in chosen}
    doubtful = sorted(found, key=lambda each: each.selection.confidence)
    chosen += [each for each in doubtful if (each.key, each.sequence) not in keys][: labels - len(chosen)]
    for each in chosen:
        key = SessionKey(each.key.app, each.key.user, each.key.id)
        await app.runner.store.decisions.label(key, each.sequence, RIGHT[each.text], actor=OPERATOR)
    wrong = sum(each.selection.agent != RIGHT[each.text] for each in chosen)
    print(f"{len(chosen)} decisions are labelled, {wrong} of them were wrong.")


async def main(arguments: argparse.Namespace) -> None:
    app = load_app(HERE / "turnwise.yaml")
    try:
        await app.serve_definitions()
        await app.runner.ready()
        if arguments.what == "play":
            await play(app, arguments.users, arguments.seed)
        else:
            await label(app, arguments.labels, arguments.seed)
    finally:
        await app.runner.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Plays customers of the help desk, and an operator who labels.")
    parser.add_argument("what", choices=["play", "label"])
    parser.add_argument("--users", type=int, default=150)
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    asyncio.run(main(parser.parse_args()))
