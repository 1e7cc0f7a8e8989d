"""Embeds and matches messages for the agents of a tree: one encoder, one matcher, and a cache of recent readings."""

import asyncio
import hashlib
import logging
import threading
import time
import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.facts.tree import AgentTree
from turnwise.matching.language import detector
from turnwise.matching.match import Phrase
from turnwise.matching.normalize import legible
from turnwise.matching.sentences import segments
from turnwise.ports.encoder import Encoder, languages_of
from turnwise.selection.background_work import FittedHeads, HeadFits, background_work
from turnwise.selection.phrases import PHRASE_CHARACTERS, TreePhrases
from turnwise.selection.reader import KnownLanguages, Snapshot, TextReader, TextReading, current_snapshot, snapshot, with_parts
from turnwise.selection.vectors import (
    CachedEncoder,
    Claim,
    EncodingStopped,
    LayeredCache,
    MemoryCache,
    Progress,
    cached_matcher,
    encode_checked,
    no_progress,
    packed_vectors_of,
    stoppable,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turnwise.matching.disk_cache import IndexCache
    from turnwise.matching.matcher import Matcher
    from turnwise.matching.packed_vectors import PackedVectors
    from turnwise.matching.smalltalk import SmallTalk
    from turnwise.matching.spelling import SpellingCorrector

__all__ = ["Meaning", "TextReading"]

_LOOK_SECONDS = 0.5
_FEW_TEXTS = 64  # encoding so few takes less time than reading the file of all vectors
_QUICK_FIT = 800  # phrases; fitting this many takes less than about a second
_BRIEF_TEXTS, _BRIEF_CHARACTERS = 4, 2_000
_log = logging.getLogger("turnwise.selection")


class Meaning:
    """Reads messages for all selectors of a policy that compare meaning. Safe to share between threads and event loops.

    The constructor is cheap; the first `read` or `prepare` does the work. For a small tree that includes fitting the
    matcher. For a larger tree, the nearest phrases decide while a background thread fits the heads; the fitted matcher then
    replaces the old one atomically. If fitting fails, the failure is logged and the nearest phrases continue to decide.

    For a changed tree, `changed` returns another one, which shares what did not change. Until new heads are fitted, the last
    ones decide for agents with the same phrases, and nearest phrases stand in for the others.

    Args:
        tree: The agents.
        encoder: Turns texts into vectors.
        keep: Folder that caches vectors and fitted matchers (`matching.disk_cache`); None = no cache.
        progress: Called with the progress, in the thread that does the work.
        default: The default agent, which counts by its examples only; None = the tree's root.
        quick_fit: A tree with at most this many phrases counts as small.
        before: The meaning of an earlier tree.
        shared: A cache that processes share, for trees that are not small; None = none.
    """

    def __init__(
        self,
        tree: AgentTree,
        encoder: Encoder,
        keep: Path | None = None,
        progress: Progress | None = None,
        *,
        default: str | None = None,
        quick_fit: int = _QUICK_FIT,
        before: "Meaning | None" = None,
        shared: "IndexCache | None" = None,
    ) -> None:
        self.tree, self.encoder = tree, encoder
        self._cache_folder, self._progress, self._default = keep, progress, default
        self._quick_fit, self._before, self._shared = quick_fit, before, shared
        self._fits: HeadFits = before._fits if before is not None else HeadFits()
        self._memory: MemoryCache = before._memory if before is not None else MemoryCache(keep is None)
        self._phrases: TreePhrases | None = None
        self._publishing = threading.Lock()
        self._reader: TextReader | None = None
        self._prepare_lock, self._lock = threading.Lock(), threading.Lock()
        self._ready_future: Future[None] | None = None
        self._heads: Future[bool] = _pending_future()
        self._failure: Exception | None = None
        self._closed = threading.Event()

    @property
    def phrases(self) -> tuple[Phrase, ...]:
        """Phrases that describe the agents, in the tree's order."""
        return self._tree_phrases().all

    def _tree_phrases(self) -> TreePhrases:
        if self._phrases is None:
            before = None if self._before is None else self._before._phrases
            self._phrases = TreePhrases(self.tree, self._default, before)
        return self._phrases

    @cached_property
    def languages(self) -> KnownLanguages:
        """The languages that messages are read in."""
        known = weakref.ref(self)  # without a circle, a meaning that nobody uses any more is freed at once
        return KnownLanguages(self.encoder, lambda: (each.text for each in meaning.phrases) if (meaning := known()) else ())

    @property
    def phrases_fingerprint(self) -> str:
        """Identifies the phrases, encoder, dictionary and matching version."""
        return _fingerprint(self._tree_phrases(), self.encoder)

    def changed(self, tree: AgentTree, *, default: str | None = None, aside: bool = False) -> "Meaning":
        """Returns the meaning of a changed tree, with the same encoder. This object does not change.

        Args:
            tree: The agents.
            default: The default agent; None = the tree's root.
            aside: The tree is only tried. Its fits and its closing do not touch those of the trees that serve.
        """
        made = Meaning(
            tree,
            self.encoder,
            self._cache_folder,
            self._progress,
            default=default,
            quick_fit=self._quick_fit,
            before=self,
            shared=self._shared,
        )
        if aside:
            made._fits, made._memory = HeadFits(self._fits.base), self._memory.copy()
        return made

    @property
    def fingerprint(self) -> str:
        """Identifies the phrases, encoder, matcher and fitting state in use; empty before it is ready."""
        return self._reader.fingerprint if self._reader else ""

    def prepare(self, progress: Progress | None = None) -> None:
        """Gets ready to read, in the calling thread. Returns at once when ready; waits if another thread is preparing.

        Raises:
            EncoderError: The phrases cannot be encoded (the next call retries), or this was closed first.
            Exception: A fit failed. This is raised once; the nearest phrases decide after that.
        """
        with self._prepare_lock, background_work():
            if self._reader is None:
                self._prepare(progress or self._progress or no_progress)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def read(self, texts: Sequence[str], *, batched: bool = False) -> list[TextReading]:
        """Returns one reading for each text, in order, over all agents that have phrases.

        Waits until ready. A few short texts are read in the calling thread when the encoder is local, others in a worker
        thread. All reads inside one `held` block use the same state.

        Args:
            texts: The texts.
            batched: Reads all texts in one batch, as in training. This is faster, but the last digit of a number may then
                depend on the other texts.

        Raises:
            EncoderError: A text has no vector, or this was closed before it was ready.
        """
        reader = await self._current_reader()
        readings = reader.cached(texts)
        missing = [text for text in dict.fromkeys(texts) if text not in readings]
        if missing:
            brief = len(missing) <= _BRIEF_TEXTS and sum(map(len, missing)) <= _BRIEF_CHARACTERS
            inline = brief and self.encoder.is_local
            work = partial(reader.read, missing, batched=batched)
            new_readings = work() if inline else await asyncio.to_thread(work)
            readings.update((reading.text, reading) for reading in new_readings)
        return [readings[text] for text in texts]

    async def read_message(self, message: str) -> TextReading:
        """Returns the reading of a user's message. A long message is also read part by part, and the matches are combined.

        Raises:
            EncoderError: As for `read`.
        """
        whole, *parts = await self.read([message, *segments(message)])
        return with_parts(whole, parts)

    def vectors(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """Returns one row of length 1 for each text of a card, from the caches where possible. Raises EncoderError."""
        plain = [legible(text[:PHRASE_CHARACTERS]) for text in texts]
        return self._vectors(plain, stoppable(no_progress, self._closed))[:]

    def held(self) -> AbstractContextManager[Snapshot]:
        """Pins the current state for one decision. A matcher swapped in meanwhile applies to the next decision."""
        return snapshot(self, self._reader)

    async def fitted(self) -> bool:
        """Waits for the fit and returns whether the fitted heads are in use.

        False when the fit was cancelled, or failed. A failure is raised once.

        Raises:
            EncoderError: As for `read`.
        """
        await self._ensure_ready()
        heads = await asyncio.wrap_future(self._heads)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        return heads

    async def tuned(self, texts: Sequence[str], labels: Sequence[str | None]) -> "Meaning":
        """Returns a copy with probabilities and novelty tuned on labelled texts. This object does not change.

        Args:
            texts: The texts. They do not become examples.
            labels: The right agent of each text; None = out of scope.
        """
        await self.fitted()
        return await asyncio.to_thread(self._tuned, texts, labels)

    def close(self) -> None:
        """Cancels a running fit without waiting for it; the state in use stays. Idempotent.

        Also stops the fits of the trees before and after this one.
        """
        self._closed.set()
        self._fits.close()

    async def _current_reader(self) -> TextReader:
        """Returns the reader to use: inside a pinned block, the block's reader."""
        pinned = current_snapshot(self)
        if pinned is None:
            return self._reader or await self._ensure_ready()
        if pinned.reader is None:
            reader = self._reader or await self._ensure_ready()
            pinned.reader = pinned.reader or reader  # another task of this decision may have set it meanwhile
        return pinned.reader

    async def _ensure_ready(self) -> TextReader:
        """Returns the reader; the first call prepares it in a thread, and concurrent calls wait for the same one."""
        if self._reader is None:
            with self._lock:
                ready_future = self._ready_future or _pending_future()
                if self._ready_future is None:
                    self._ready_future = ready_future
                    threading.Thread(target=self._prepare_in_thread, args=(ready_future,), name="turnwise-prepare").start()
            await asyncio.wrap_future(ready_future)
        assert self._reader is not None
        return self._reader

    def _prepare_in_thread(self, ready_future: "Future[None]") -> None:
        """Prepares the reader and resolves the future. After an error, the next message tries again."""
        try:
            with self._prepare_lock:
                if self._reader is None:
                    self._prepare(self._progress or no_progress)
        except BaseException as problem:
            with self._lock:
                self._ready_future = None
            ready_future.set_exception(problem)
        else:
            ready_future.set_result(None)

    def _prepare(self, progress: Progress) -> None:
        """Makes the first reader: from cached heads, else nearest phrases until the heads are fitted in the background."""
        from turnwise.matching.smalltalk import SmallTalk

        progress = stoppable(progress, self._closed)
        phrases, cache, fingerprint = self.phrases, self._cache(), self.phrases_fingerprint
        before = None if self._before is None else self._before._reader
        if self.encoder.is_local and before is None:
            self.encoder.encode(["hello"])  # loads a lazily loaded model now, rather than at the first message
        smalltalk = before.smalltalk if before else SmallTalk.for_encoder(CachedEncoder(self.encoder, cache, progress))
        spelling = self._spelling(before)
        self._before = None
        if not phrases:
            self._publish(TextReader(self.encoder, None, smalltalk, spelling, f"{fingerprint}-empty"), True)
            return
        cached = cached_matcher(cache, fingerprint, phrases, self.encoder.dimensions)
        if cached is not None:
            self._publish(TextReader(self.encoder, cached, smalltalk, spelling, f"{fingerprint}-fitted"), True)
            self._fits.adopt(FittedHeads(cached, f"{fingerprint}-fitted", fingerprint))
            return
        base = self._fits.base
        if base is None:
            self._prepare_first(smalltalk, spelling, fingerprint, progress)
            return
        if base.fingerprint == fingerprint:
            matcher, name = base.matcher, base.name
        else:
            matcher = base.matcher.patched(phrases, partial(self._vectors, progress=progress))
            name = f"{fingerprint}-patched-{base.name}"
        reader = TextReader(self.encoder, matcher, smalltalk, spelling, name)
        if base.fingerprint == fingerprint and matcher.fitted:
            self._publish(reader, True)
        else:
            self._reader = reader
        self._fits.request(self)

    def _prepare_first(
        self, smalltalk: "SmallTalk", spelling: "SpellingCorrector", fingerprint: str, progress: Progress
    ) -> None:
        """Prepares the first tree: nothing was fitted before."""
        from turnwise.matching.matcher import nearest

        phrases = self.phrases
        matcher = nearest(phrases, self._vectors([phrase.text for phrase in phrases], progress))
        reader = TextReader(self.encoder, matcher, smalltalk, spelling, f"{fingerprint}-nearest")
        self._fits.adopt(FittedHeads(matcher, f"{fingerprint}-nearest", fingerprint))
        if len(phrases) > self._quick_fit:
            self._reader = reader
            self._fits.request(self)
            return
        try:
            self._fit(reader, progress)
        finally:
            # Set only now, so that concurrent readers do not get a state that waiting callers never see.
            self._reader = self._reader or reader

    def _spelling(self, before: TextReader | None) -> "SpellingCorrector":
        """Returns the spelling corrector for the agents' words, updated from the one before where there is one."""
        from turnwise.matching.spelling import SpellingCorrector

        known = None if self._before is None else self._before._phrases
        if before is None or known is None:
            # The names include agents that have no phrases.
            texts = (text for each in self._tree_phrases().by_agent.values() for text in each.texts)
            return SpellingCorrector(texts, english=languages_of(self.encoder) == frozenset({"en"}))
        removed, added = self._tree_phrases().changed_from(known)
        return before.spelling.changed(removed, added) if removed or added else before.spelling

    def _vectors(self, texts: Sequence[str], progress: Progress) -> "PackedVectors":
        cache = self._cache(few=len(texts) <= _FEW_TEXTS)
        return packed_vectors_of(texts, self.encoder, cache=cache, progress=progress, in_parts=self._cache_folder is None)

    def patch_from(self, base: FittedHeads) -> None:
        """Decides with the heads of earlier agents from now on, unless heads of these agents are in use."""
        fingerprint = self.phrases_fingerprint
        with self._publishing:
            reader = self._reader
            if reader is None or self._heads.done() or base.fingerprint == fingerprint:
                return
            matcher = base.matcher.patched(self.phrases, partial(self._vectors, progress=no_progress))
            self._reader = reader.with_matcher(matcher, f"{fingerprint}-patched-{base.name}")

    def fit_heads(self) -> bool:
        """Fits the heads of these agents and decides with them. Returns False when the fit failed or was stopped."""
        if self._reader is None:
            return False
        return self._fit(self._reader, stoppable(no_progress, self._fits.closed))

    def give_up_heads(self) -> None:
        """Stops waiting for heads: a later tree gets them. Does nothing when there are heads."""
        with self._publishing:
            if not self._heads.done():
                self._heads.set_result(False)

    def _fit(self, reader: TextReader, progress: Progress) -> bool:
        """Fits the heads for the phrases, or loads those that another process fitted. Returns whether they now decide."""
        from turnwise.matching.matcher import fit
        from turnwise.matching.novelty import shipped_strangers

        phrases, fingerprint, cache = self.phrases, self.phrases_fingerprint, self._cache()
        claim = Claim(cache, fingerprint)
        try:
            matcher = self._fitted_elsewhere(claim, progress)
            is_own = matcher is None
            if matcher is None:
                self._memory.retain([phrase.text for phrase in phrases])
                base = self._fits.base
                assert base is not None

                def step(share: float) -> None:
                    claim.renew()
                    progress("fitting", round(100 * share), 100)

                strangers = shipped_strangers(self.encoder.fingerprint)
                with background_work():
                    vectors = base.matcher.vectors_for(phrases, partial(self._vectors, progress=progress))
                    matcher = fit(phrases, vectors, strangers=strangers, progress=step, like=reader.matcher)
                    del vectors, base
        except EncodingStopped:
            self.give_up_heads()
        except Exception as problem:
            _log.warning("The matcher could not be fitted (%s): nearest phrases go on deciding.", type(problem).__name__)
            self._failure = problem
            self.give_up_heads()
        except BaseException:
            self.give_up_heads()
            raise
        else:
            # Before it is published: a caller that waits for these heads may change the agents at once.
            with background_work():
                self._fits.adopt(FittedHeads(matcher, f"{fingerprint}-fitted", fingerprint))
                self._publish(reader.with_matcher(matcher, f"{fingerprint}-fitted"), True)
                del reader  # and the heads before, which the fitted ones replaced
            if is_own:
                cache.store_matcher(fingerprint, matcher.arrays())
            return True
        finally:
            claim.release()
        return False

    def _fitted_elsewhere(self, claim: Claim, progress: Progress) -> "Matcher | None":
        """Waits for another process that fits these heads. Returns them; None when this process has to fit them."""
        while not claim.renew():
            progress("waiting", 0, 1)
            time.sleep(_LOOK_SECONDS)
            found = cached_matcher(claim.cache, claim.fingerprint, self.phrases, self.encoder.dimensions)
            if found is not None:
                return found
        # It may have been finished right before the claim.
        return cached_matcher(claim.cache, claim.fingerprint, self.phrases, self.encoder.dimensions) if claim.waited else None

    def _publish(self, reader: TextReader, heads: bool) -> None:
        with self._publishing:
            self._reader = reader
            if not self._heads.done():
                self._heads.set_result(heads)

    def _tuned(self, texts: Sequence[str], labels: Sequence[str | None]) -> "Meaning":
        """Returns a copy with scales fitted to labelled texts. This one stays as it is."""
        reader = self._reader
        assert reader is not None
        tuned = Meaning(self.tree, self.encoder, self._cache_folder, self._progress, default=self._default)
        tuned._phrases = self._phrases
        matcher = reader.matcher
        digest = hashlib.sha256(repr((list(texts), list(labels))).encode()).hexdigest()[:12]
        if matcher is not None and texts:
            plain = [legible(reader.corrected(text).text) for text in texts]
            matcher = matcher.tuned(plain, encode_checked(plain, self.encoder), labels)
        tuned._publish(reader.with_matcher(matcher, f"{reader.fingerprint}-tuned-{digest}"), self._heads.result())
        return tuned

    def _cache(self, *, few: bool = False) -> "IndexCache":
        """Returns the cache. For few texts of many it leaves out the disk: its files are read as wholes."""
        layers: list[IndexCache] = [self._memory]
        is_large = len(self.phrases) > self._quick_fit
        if self._shared is not None and is_large:
            layers.append(self._shared)
        if self._cache_folder is not None and not (few and is_large and self.encoder.is_local):
            from turnwise.matching.disk_cache import DiskCache

            layers.append(DiskCache(self._cache_folder))
        return LayeredCache(layers)


def _fingerprint(phrases: TreePhrases, encoder: Encoder) -> str:
    """Returns twenty hexadecimal digits that identify the phrases, encoder, dictionary, detector and matching version."""
    from turnwise.matching.disk_cache import version
    from turnwise.matching.spelling import dictionary

    digest = hashlib.sha256(f"{version()}\0{encoder.fingerprint}\0{dictionary()}\0{detector()}\0".encode())
    digest.update(phrases.digest)
    return digest.hexdigest()[:20]


def _pending_future() -> "Future[Any]":
    """Returns a future that its waiters cannot cancel."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


async def warm(meaning: Meaning | None) -> None:
    """Prepares what a first decision needs, without waiting for heads. Raises EncoderError."""
    if meaning is not None:
        await asyncio.to_thread(meaning.prepare)
        await asyncio.to_thread(meaning.languages.prepare)
