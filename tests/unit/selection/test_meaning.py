"""What messages mean to the agents of a tree."""

import asyncio
import gc
import logging
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from words import Words

from turnwise.facts.errors import EncoderError
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.matching.disk_cache import DiskCache
from turnwise.matching.spelling import Correction, dictionary
from turnwise.selection.meaning import Meaning

EXAMPLES = {
    "billing": ("where is my invoice", "send the invoice again", "the bill is wrong", "pay my bill"),
    "travel": ("book a flight to rome", "a hotel in rome", "change my flight", "cancel the flight"),
    "weather": ("will it rain tomorrow", "is it sunny today", "how cold will it be", "weather in rome"),
}


def tree_of(examples: Mapping[str, tuple[str, ...]] = EXAMPLES) -> AgentTree:
    cards = [AgentCard(name=name, parent="root", examples=texts) for name, texts in examples.items()]
    return AgentTree([AgentCard(name="root"), *cards])


async def best(meaning: Meaning, text: str) -> str:
    (reading,) = await meaning.read([text])
    return reading.match.ranked(1)[0][0]


async def test_a_small_tree_is_fitted_when_it_is_first_read() -> None:
    meaning = Meaning(tree_of(), Words())
    assert meaning.fingerprint == ""
    readings = await meaning.read(["my flight", "is it cold", "my flight"])
    assert [reading.match.ranked(1)[0][0] for reading in readings] == ["travel", "weather", "travel"]
    assert [reading.text for reading in readings] == ["my flight", "is it cold", "my flight"]
    assert readings[0].match.fitted
    assert readings[0].match.labels == ("billing", "travel", "weather")
    assert meaning.fingerprint.endswith("-fitted")
    assert await meaning.fitted()
    assert await meaning.read([]) == []


async def test_nobody_reads_a_small_tree_before_it_is_fitted() -> None:
    """E9: those who come while it is being fitted are told the same as those who came first."""
    seen = []

    def step(what: str, done: int, total: int) -> None:
        seen.append((what, meaning.fingerprint))

    meaning = Meaning(tree_of(), Words(), progress=step)
    await meaning.read(["my flight"])
    assert ("fitting", "") in seen
    assert {fingerprint for _, fingerprint in seen} == {""}


async def test_nearest_phrases_decide_until_heads_are_fitted() -> None:
    """Decision 15: what a change does is seen at once, and the fitted heads are swapped in as a whole."""
    meaning = Meaning(tree_of(), Words(), quick_fit=0)
    assert await best(meaning, "the flight to rome") == "travel"
    assert await meaning.fitted()
    assert meaning.fingerprint.endswith("-fitted")
    (reading,) = await meaning.read(["the flight to rome"])  # remembered from before the fit: read again
    assert reading.match.fitted


async def test_a_text_is_encoded_once() -> None:
    encoder = Words()
    meaning = Meaning(tree_of(), encoder)
    await meaning.read(["my flight"])
    before = len(encoder.asked)
    await meaning.read(["my flight", "my flight"])
    assert len(encoder.asked) == before


async def test_names_of_agents_that_count_by_nothing_else_are_no_slips() -> None:
    """C2: the root's name is no phrase, and is known all the same."""
    cards = [AgentCard(name="revolut", examples=("hello",)), AgentCard(name="a", parent="revolut", examples=("a revolt",))]
    meaning = Meaning(AgentTree(cards), Words())
    readings = await meaning.read(["talk to revolut please", "talk to revoltu please"])
    assert [reading.corrected.text for reading in readings] == ["talk to revolut please"] * 2


@pytest.mark.parametrize("text", ["my pas\u200bword please", "my pa\u00adsword please", "ｍｙ ｐａｓｗｏｒｄ please"])
async def test_slips_are_mended_in_the_form_that_texts_are_compared_in(text: str) -> None:
    """C2"""
    meaning = Meaning(tree_of({"account": ("I forgot my password",)}), Words())
    (reading,) = await meaning.read([text])
    assert reading.corrected.text == "my password please"


async def test_another_dictionary_is_another_state() -> None:
    """E1, E9: it has its part in what is read."""
    meaning = Meaning(tree_of(), Words())
    await meaning.fitted()
    assert meaning.fingerprint.startswith(meaning.phrases_fingerprint)
    assert dictionary().split() == ["pyspellchecker", version("pyspellchecker")]


async def test_a_remote_encoder_is_asked_once_for_a_long_message() -> None:
    asked: list[int] = []

    class Remote(Words):
        is_local = False

        def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
            asked.append(len(texts))
            return super().encode(texts)

    meaning = Meaning(tree_of(), Remote())
    await meaning.fitted()
    asked.clear()
    heard = await meaning.read_message("my aunt has a dog and the dog has a cat. pay my bill. " * 4)
    assert len(asked) == 1
    assert heard.match.ranked(1)[0][0] == "billing"


async def test_slips_in_any_part_are_told() -> None:
    told = "my aunt has a dog and the dog has a cat. " * 60
    heard = await Meaning(tree_of(), Words()).read_message(f"{told}send the invocie")
    assert heard.corrected.corrections == (Correction("invocie", "invoice"),)


async def test_what_a_user_tells_at_length_is_heard_part_by_part() -> None:
    meaning, chatter = Meaning(tree_of(), Words()), "my aunt has a dog and the dog has a cat. " * 3
    told = f"{chatter}book a flight to rome. {chatter}"
    whole, heard = (await meaning.read([told]))[0], await meaning.read_message(told)
    assert (heard.text, heard.corrected, heard.smalltalk) == (told, whole.corrected, whole.smalltalk)
    assert (heard.match.similarities[1] > 0.9, whole.match.similarities[1] < 0.5) == (True, True)
    assert heard.match.nearest[0].text == "book a flight to rome"
    assert (await meaning.read_message("my flight")).match is (await meaning.read(["my flight"]))[0].match
    assert np.array_equal((await meaning.read_message(told)).match.probabilities, heard.match.probabilities)


async def test_one_process_fits_and_the_next_takes_it_over(tmp_path: Path) -> None:
    """E9: decided alike, whether fitted here or taken over."""
    first = Meaning(tree_of(), Words(), tmp_path)
    (reading,) = await first.read(["my flight"])
    encoder = Words()
    second = Meaning(tree_of(), encoder, tmp_path)
    (again,) = await second.read(["my flight"])
    assert "book a flight to rome" not in encoder.asked
    assert again.match.fitted
    assert second.fingerprint == first.fingerprint
    assert np.array_equal(again.match.probabilities, reading.match.probabilities)
    assert again.match.nearest == reading.match.nearest
    assert again.match.novelty == reading.match.novelty


async def test_a_kept_matcher_that_is_none_is_fitted_again(tmp_path: Path) -> None:
    await Meaning(tree_of(), Words(), tmp_path).fitted()
    cache = DiskCache(tmp_path)
    fingerprint = Meaning(tree_of(), Words()).phrases_fingerprint
    cache.store_matcher(fingerprint, {"nonsense": np.zeros(3)})
    meaning = Meaning(tree_of(), Words(), tmp_path)
    assert await best(meaning, "my flight") == "travel"
    arrays = cache.matcher(fingerprint)
    assert arrays is not None
    assert len(arrays) > 2


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("learned.means", np.zeros((1, 128), np.float32)),
        ("learned.meaning.weights", np.full((128, 3), np.nan, np.float32)),
        ("index.places", np.zeros(12)),
        ("index.label_count", np.array(1)),
    ],
)
async def test_a_kept_matcher_whose_parts_do_not_belong_together_is_fitted_again(
    name: str, wrong: NDArray[np.generic], tmp_path: Path
) -> None:
    meaning = Meaning(tree_of(), Words(), tmp_path)
    await meaning.fitted()
    cache = DiskCache(tmp_path)
    fingerprint = meaning.fingerprint.removesuffix("-fitted")
    arrays = cache.matcher(fingerprint)
    assert arrays is not None
    assert name in arrays
    cache.store_matcher(fingerprint, {**arrays, name: wrong})
    assert await best(Meaning(tree_of(), Words(), tmp_path), "my flight") == "travel"


async def test_another_tree_or_encoder_has_another_fingerprint(tmp_path: Path) -> None:
    changed = {**EXAMPLES, "weather": ("will it snow",)}
    meanings = [Meaning(tree_of(), Words()), Meaning(tree_of(changed), Words()), Meaning(tree_of(), Words("words:2"))]
    for meaning in meanings:
        await meaning.read(["hello"])
    assert len({meaning.fingerprint for meaning in meanings}) == 3


async def test_many_readers_at_once_prepare_once() -> None:
    encoder = Words()
    meaning = Meaning(tree_of(), encoder)
    waiting = threading.Thread(target=meaning.prepare)
    waiting.start()
    readings = await asyncio.gather(*(meaning.read(["my flight"]) for _ in range(50)))
    waiting.join()
    assert {reading.match.ranked(1)[0][0] for (reading,) in readings} == {"travel"}
    assert encoder.asked.count("book a flight to rome") == 1


async def test_preparing_does_not_hold_up_the_loop() -> None:
    gate = threading.Event()

    class Gated(Words):
        def encode(self, texts):  # type: ignore[no-untyped-def]
            gate.wait(30)
            return super().encode(texts)

    meaning = Meaning(tree_of(), Gated())
    reading = asyncio.ensure_future(meaning.read(["my flight"]))
    await asyncio.sleep(0.01)
    assert not reading.done()
    gate.set()
    assert len(await reading) == 1


async def test_who_stops_waiting_does_not_stop_the_others() -> None:
    meaning = Meaning(tree_of(), Words())
    impatient = asyncio.ensure_future(meaning.read(["my flight"]))
    patient = asyncio.ensure_future(meaning.read(["my flight"]))
    await asyncio.sleep(0)
    impatient.cancel()
    assert len(await patient) == 1
    with pytest.raises(asyncio.CancelledError):
        await impatient


async def test_an_encoder_that_is_not_local_is_asked_in_a_thread() -> None:
    asked_in = set()

    class Remote(Words):
        def encode(self, texts):  # type: ignore[no-untyped-def]
            asked_in.add(threading.current_thread())
            return super().encode(texts)

    local, remote = Meaning(tree_of(), Remote()), Meaning(tree_of(), Remote(is_local=False))
    local.prepare()
    remote.prepare()
    asked_in.clear()
    await remote.read(["my flight"])
    await local.read([f"text {number}" for number in range(20)])
    await local.read(["long " * 1_000])
    assert threading.current_thread() not in asked_in
    await local.read(["my flight"])
    assert threading.current_thread() in asked_in


async def test_an_encoder_that_fails_is_asked_again() -> None:
    encoder = Words()
    encoder.broken = True
    meaning = Meaning(tree_of(), encoder)
    with pytest.raises(EncoderError):
        await meaning.read(["my flight"])
    with pytest.raises(EncoderError):
        meaning.prepare()
    encoder.broken = False
    assert await best(meaning, "my flight") == "travel"
    encoder.broken = True
    with pytest.raises(EncoderError):
        await meaning.read(["something new"])
    assert await best(meaning, "my flight") == "travel"  # remembered


async def test_a_fit_that_fails_is_said_once_and_nearest_phrases_go_on(caplog: pytest.LogCaptureFixture) -> None:
    def progress(what: str, done: int, total: int) -> None:
        if what == "fitting":
            raise ArithmeticError("secret")

    meaning = Meaning(tree_of(), Words(), progress=progress)
    with caplog.at_level(logging.WARNING, "turnwise.selection"), pytest.raises(ArithmeticError):
        meaning.prepare()
    meaning.prepare()
    assert await best(meaning, "my flight") == "travel"
    assert not await meaning.fitted()
    assert [record.getMessage() for record in caplog.records] == [
        "The matcher could not be fitted (ArithmeticError): nearest phrases go on deciding."
    ]


async def test_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []
    Meaning(tree_of(), Words(), progress=lambda *step: told.append(step)).prepare()
    assert ("fitting", 100, 100) in told
    assert told[0][0] == "encoding"


async def test_a_tuned_meaning_is_another() -> None:
    meaning = Meaning(tree_of(), Words())
    texts = ["my invoice", "a flight", "is it raining", "sing a song", "who are you"] * 4
    tuned = await meaning.tuned(texts, ["billing", "travel", "weather", None, None] * 4)
    assert tuned.fingerprint != meaning.fingerprint
    assert tuned.fingerprint.startswith(meaning.fingerprint)
    assert await best(tuned, "my flight") == "travel"
    assert tuned.tree is meaning.tree


async def test_a_tree_without_words_fits_nobody() -> None:
    meaning = Meaning(AgentTree([AgentCard(name="root")]), Words())
    (reading,) = await meaning.read(["hello"])
    assert (reading.match.labels, reading.match.novelty) == ((), 1.0)
    assert await meaning.fitted()


async def test_what_was_closed_stops_and_goes_on_reading() -> None:
    meaning = Meaning(tree_of(), Words(), quick_fit=0)
    meaning.prepare()
    meaning.close()
    meaning.close()
    await meaning.fitted()
    assert await best(meaning, "my flight") == "travel"


async def test_what_was_closed_before_it_was_ready_says_so_with_a_typed_error() -> None:
    """Whoever comes then gets an error that can be caught, every time, whatever is asked for."""
    meaning = Meaning(tree_of(), Words())
    meaning.close()
    for _ in range(2):
        with pytest.raises(EncoderError, match="closed before the agents' texts were read"):
            await meaning.read(["my flight"])
        with pytest.raises(EncoderError, match="closed before"):
            await meaning.fitted()
        with pytest.raises(EncoderError, match="closed before"):
            meaning.prepare()


def test_loops_and_threads_may_share_it() -> None:
    meaning = Meaning(tree_of(), Words())
    found = []
    threads = [threading.Thread(target=lambda: found.append(asyncio.run(best(meaning, "my flight")))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["travel"] * 4


def test_importing_it_does_not_import_numpy() -> None:
    script = "import sys, turnwise.selection.meaning; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


_LEAVES_WHILE_PREPARING = """
import asyncio, sys, time
from turnwise.facts.tree import AgentCard
from turnwise.facts.tree import AgentTree
from turnwise.selection.meaning import Meaning
from words import Words

class Slow(Words):
    def encode(self, texts):
        time.sleep(0.02)
        return super().encode(texts)

examples = tuple(f"text {number}" for number in range(1_000_000))
tree = AgentTree([AgentCard(name="root"), AgentCard(name="a", parent="root", examples=examples[:200_000])])

async def main():
    try:
        await asyncio.wait_for(Meaning(tree, Slow()).read(["hello"]), 0.5)
    except TimeoutError:
        print("left")

asyncio.run(main())
"""


def test_a_process_can_leave_while_it_prepares() -> None:
    """Encoding everything would take minutes; the thread that does it neither holds the process up nor crashes it."""
    support = Path(__file__).parents[2] / "support"
    script = f"import sys; sys.path.insert(0, {str(support)!r})\n{_LEAVES_WHILE_PREPARING}"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)
    assert (process.returncode, process.stdout, process.stderr) == (0, "left\n", "")


CHANGED = {**EXAMPLES, "weather": (*EXAMPLES["weather"], "does it snow"), "parking": ("where can i park", "a garage near me")}


async def test_nearest_phrases_stand_in_for_changed_agents_until_heads_are_fitted() -> None:
    """F3, E9: the state names both versions."""
    first = Meaning(tree_of(), Words(), quick_fit=0)
    assert await first.fitted()
    first.close()  # no more fits
    second = first.changed(tree_of(CHANGED))
    second.prepare()
    assert second.fingerprint == f"{second.phrases_fingerprint}-patched-{first.fingerprint}"
    assert [await best(second, text) for text in ("my flight", "does it snow", "can i park")] == [
        "travel",
        "weather",
        "parking",
    ]
    (reading,) = await second.read(["where can i park"])
    assert reading.match.labels == ("billing", "travel", "weather", "parking")
    assert reading.match.nearest[0].text == "where can i park"
    assert reading.corrected.text == "where can i park"
    assert not await second.fitted()
    third = second.changed(tree_of())
    third.prepare()
    assert third.fingerprint == first.fingerprint, "these are the agents that the heads were fitted to"
    texts = ["my flight", "is it cold", "send it"]
    pairs = zip(await first.read(texts), await third.read(texts), strict=True)
    assert all((one.match.probabilities == other.match.probabilities).all() for one, other in pairs)
    assert (await best(first, "my flight"), first.phrases) == ("travel", third.phrases)


async def test_frequent_changes_share_fits_and_the_last_one_gets_its_heads() -> None:
    """F3, E9: and they are those that a new process fits."""
    meaning = Meaning(tree_of(), Words(), quick_fit=0)
    await meaning.read(["hi"])
    for number in range(20):
        more = (*EXAMPLES["weather"], f"is there fog number {number}")
        meaning = meaning.changed(tree_of({**EXAMPLES, "weather": more}))
        meaning.prepare()
        assert (await best(meaning, f"fog number {number}"), len(meaning.phrases)) == ("weather", 16)
    assert await meaning.fitted()
    fresh = Meaning(meaning.tree, Words())
    assert await fresh.fitted()
    assert meaning.fingerprint == fresh.fingerprint
    texts = ["my flight", "is it cold", "fog"]
    pairs = zip(await meaning.read(texts), await fresh.read(texts), strict=True)
    assert all((one.match.probabilities == other.match.probabilities).all() for one, other in pairs)


async def test_changes_leave_nothing_of_earlier_trees() -> None:
    """F3: memory stays flat."""
    meaning = Meaning(tree_of(), Words(), quick_fit=0)
    await meaning.fitted()
    seen = []
    for number in range(30):
        meaning = meaning.changed(tree_of({**EXAMPLES, "weather": (f"is there fog number {number}",)}))
        meaning.prepare()
        seen.append(weakref.ref(meaning))
    await meaning.fitted()
    for thread in threading.enumerate():
        if thread.name == "turnwise-fit":
            await asyncio.to_thread(thread.join)
    gc.collect()
    assert [each() for each in seen if each() is not None] == [meaning]


async def test_only_new_texts_are_encoded() -> None:
    """F3"""
    words = Words()
    first = Meaning(tree_of(), words)
    await first.fitted()
    words.asked.clear()
    second = first.changed(tree_of(CHANGED))
    second.prepare()
    assert set(words.asked) == {"does it snow", "parking", "where can i park", "a garage near me"}
