"""Embeds and matches messages for the agents of a tree: one encoder, one matcher, and a cache of recent readings."""

import asyncio
import hashlib
import itertools
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.facts.errors import EncoderError
from turnwise.facts.tree import AgentTree
from turnwise.matching.match import Phrase
from turnwise.matching.normalize import legible
from turnwise.matching.sentences import segments
from turnwise.ports.encoder import Encoder
from turnwise.selection.phrases import phrases_of, words_of
from turnwise.selection.reader import Snapshot, TextReader, TextReading, snapshot, snapshot_of, with_parts
from turnwise.selection.vectors import CachedEncoder, Progress, encoded, vectors_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turnwise.matching.disk_cache import DiskCache
    from turnwise.matching.matcher import Matcher

__all__ = ["Meaning", "TextReading"]

_QUICK_FIT = 800  # phrases; fitting this many takes less than about a second
_BRIEF_TEXTS, _BRIEF_CHARACTERS = 4, 2_000
_log = logging.getLogger("turnwise.selection")


class EncodingStopped(EncoderError):
    """Encoding was cancelled: the process is exiting or the `Meaning` was closed."""

    def __init__(self) -> None:
        super().__init__("It was closed before the agents' texts were read.", fix="Make another: what is closed stays closed.")


class Meaning:
    """Reads messages for all selectors of a policy that compare meaning. Safe to share between threads and event loops.

    The constructor is cheap; the first `read` or `prepare` does the work. For a small tree that includes fitting the
    matcher. For a larger tree, the nearest phrases decide while a background thread fits the heads; the fitted matcher then
    replaces the old one atomically. If fitting fails, the failure is logged and the nearest phrases continue to decide.

    Args:
        tree: The agents.
        encoder: Turns texts into vectors.
        keep: Folder that caches vectors and fitted matchers (`matching.disk_cache`); None = no cache.
        progress: Called with the progress, in the thread that does the work.
        default: The default agent, which counts by its examples only; None = the tree's root.
        quick_fit: A tree with at most this many phrases counts as small.
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
    ) -> None:
        self.tree, self.encoder = tree, encoder
        self._keep, self._progress, self._default = keep, progress, default
        self._quick_fit = quick_fit
        self._phrases: tuple[Phrase, ...] | None = None
        self._served: TextReader | None = None
        self._one_at_a_time = threading.Lock()
        self._lock = threading.Lock()
        self._readiness: Future[None] | None = None
        self._heads: Future[bool] = _begun()
        self._failure: Exception | None = None
        self._closed = threading.Event()

    @property
    def phrases(self) -> tuple[Phrase, ...]:
        """Phrases that describe the agents, in the tree's order."""
        if self._phrases is None:
            self._phrases = phrases_of(self.tree, self._default)
        return self._phrases

    @property
    def fingerprint(self) -> str:
        """Identifies the phrases, encoder, matcher and fitting state in use; empty before it is ready."""
        return self._served.fingerprint if self._served else ""

    def prepare(self, progress: Progress | None = None) -> None:
        """Gets ready to read, in the calling thread. Returns at once when ready; waits if another thread is preparing.

        Raises:
            EncoderError: The phrases cannot be encoded (the next call retries), or this was closed first.
            Exception: A fit failed. This is raised once; the nearest phrases decide after that.
        """
        with self._one_at_a_time:
            if self._served is None:
                self._make_ready(progress or self._progress or _silent)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def read(self, texts: Sequence[str], *, together: bool = False) -> list[TextReading]:
        """Returns one reading for each text, in order, over all agents that have phrases.

        Waits until ready. A few short texts are read in the calling thread when the encoder is local, others in a worker
        thread. All reads inside one `held` block use the same state.

        Args:
            texts: The texts.
            together: Reads many texts in one batch, as in training. This is faster, but the last digit of a number may then
                depend on the other texts.

        Raises:
            EncoderError: A text has no vector, or this was closed before it was ready.
        """
        served = await self._state()
        found = served.remembered(texts)
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing:
            brief = len(missing) <= _BRIEF_TEXTS and sum(map(len, missing)) <= _BRIEF_CHARACTERS
            here = brief and self.encoder.is_local
            work = partial(served.read, missing, together=together)
            fresh = work() if here else await asyncio.to_thread(work)
            found.update((reading.text, reading) for reading in fresh)
        return [found[text] for text in texts]

    async def hear(self, message: str) -> TextReading:
        """Returns the reading of a user's message. A long message is also read part by part, and the matches are combined.

        Raises:
            EncoderError: As for `read`.
        """
        whole, *parts = await self.read([message, *segments(message)])
        return with_parts(whole, parts)

    def held(self) -> AbstractContextManager[Snapshot]:
        """Pins the current state for one decision. A matcher swapped in meanwhile applies to the next decision."""
        return snapshot(self, self._served)

    async def fitted(self) -> bool:
        """Waits for the fit and returns whether the fitted heads are in use.

        False when the fit was cancelled, or failed. A failure is raised once.

        Raises:
            EncoderError: As for `read`.
        """
        await self._ready()
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
        """Cancels a running fit without waiting for it; the state in use stays. Idempotent."""
        self._closed.set()

    async def _state(self) -> TextReader:
        """Returns the reader to use: inside a pinned block, the block's reader."""
        hold = snapshot_of(self)
        if hold is None:
            return self._served or await self._ready()
        if hold.served is None:
            found = self._served or await self._ready()
            hold.served = hold.served or found  # another task of this decision may have set it meanwhile
        return hold.served

    async def _ready(self) -> TextReader:
        if self._served is None:
            with self._lock:
                readiness = self._readiness or _begun()
                if self._readiness is None:
                    self._readiness = readiness
                    threading.Thread(target=self._prepare_for, args=(readiness,), name="turnwise-prepare").start()
            await asyncio.wrap_future(readiness)
        assert self._served is not None
        return self._served

    def _prepare_for(self, readiness: "Future[None]") -> None:
        try:
            with self._one_at_a_time:
                if self._served is None:
                    self._make_ready(self._progress or _silent)
        except BaseException as problem:
            with self._lock:
                self._readiness = None
            readiness.set_exception(problem)
        else:
            readiness.set_result(None)

    def _make_ready(self, progress: Progress) -> None:
        from turnwise.matching.matcher import nearest
        from turnwise.matching.smalltalk import SmallTalk
        from turnwise.matching.spelling import SpellingCorrector

        progress = self._stoppable(progress)
        phrases, kept = self.phrases, self._kept()
        fingerprint = fingerprint_of(phrases, self.encoder)
        if self.encoder.is_local:
            self.encoder.encode(["hello"])  # loads a lazily loaded model now, rather than at the first message
        smalltalk = SmallTalk.for_encoder(CachedEncoder(self.encoder, kept, progress))
        names = (words_of(card.name) for card in self.tree)  # includes agents that have no phrases
        spelling = SpellingCorrector(itertools.chain(names, (phrase.text for phrase in phrases)))
        if not phrases:
            return self._serve(TextReader(self.encoder, None, smalltalk, spelling, f"{fingerprint}-empty"), True)
        before = _fitted_before(kept, fingerprint, phrases, self.encoder.dimensions)
        if before is not None:
            return self._serve(TextReader(self.encoder, before, smalltalk, spelling, f"{fingerprint}-fitted"), True)
        texts = [phrase.text for phrase in phrases]
        vectors = vectors_of(texts, self.encoder, kept=kept, progress=progress)
        served = TextReader(self.encoder, nearest(phrases, vectors), smalltalk, spelling, f"{fingerprint}-nearest")
        if len(phrases) <= self._quick_fit:
            try:
                return self._fit(served, phrases, vectors, fingerprint, progress)
            finally:
                # Set only now, so that concurrent readers do not get a state that waiting callers never see.
                self._served = self._served or served
        self._served = served
        # Not a daemon: a thread killed inside native code can crash the interpreter at exit.
        work = (served, phrases, vectors, fingerprint, self._stoppable(_silent))
        try:
            threading.Thread(target=self._fit, args=work, name="turnwise-fit").start()
        except RuntimeError:  # no more threads, or the interpreter is shutting down
            _log.warning("No thread could be started for the fit: nearest phrases go on deciding.")
            self._heads.set_result(False)
        return None

    def _fit(
        self,
        served: TextReader,
        phrases: tuple[Phrase, ...],
        vectors: "NDArray[np.float32]",
        fingerprint: str,
        progress: Progress,
    ) -> None:
        from turnwise.matching.matcher import fit

        try:
            matcher = fit(phrases, vectors, progress=lambda share: progress("fitting", round(100 * share), 100))
        except EncodingStopped:
            self._heads.set_result(False)
        except Exception as problem:
            _log.warning("The matcher could not be fitted (%s): nearest phrases go on deciding.", type(problem).__name__)
            self._failure = problem
            self._heads.set_result(False)
        except BaseException:
            self._heads.set_result(False)
            raise
        else:
            self._serve(served.by(matcher, f"{fingerprint}-fitted"), True)
            kept = self._kept()
            if kept is not None:
                kept.keep_matcher(fingerprint, matcher.arrays())

    def _serve(self, served: TextReader, heads: bool) -> None:
        self._served = served
        self._heads.set_result(heads)

    def _tuned(self, texts: Sequence[str], labels: Sequence[str | None]) -> "Meaning":
        served = self._served
        assert served is not None
        after = Meaning(self.tree, self.encoder, self._keep, self._progress, default=self._default)
        after._phrases = self._phrases
        matcher = served.matcher
        digest = hashlib.sha256(repr((list(texts), list(labels))).encode()).hexdigest()[:12]
        if matcher is not None and texts:
            plain = [legible(served.mended(text).text) for text in texts]
            matcher = matcher.tuned(plain, encoded(plain, self.encoder), labels)
        after._serve(served.by(matcher, f"{served.fingerprint}-tuned-{digest}"), self._heads.result())
        return after

    def _kept(self) -> "DiskCache | None":
        if self._keep is None:
            return None
        from turnwise.matching.disk_cache import DiskCache

        return DiskCache(self._keep)

    def _stoppable(self, progress: Progress) -> Progress:
        def step(what: str, done: int, total: int) -> None:
            # At exit, the main thread ends before the interpreter joins the other threads.
            if self._closed.is_set() or not threading.main_thread().is_alive():
                raise EncodingStopped
            progress(what, done, total)

        return step


def fingerprint_of(phrases: Sequence[Phrase], encoder: Encoder) -> str:
    """Returns twenty hexadecimal digits that identify the phrases, encoder, dictionary and matching version."""
    from turnwise.matching.disk_cache import version
    from turnwise.matching.spelling import dictionary

    digest = hashlib.sha256(f"{version()}\0{encoder.fingerprint}\0{dictionary()}\0".encode())
    for phrase in phrases:
        digest.update("\0".join(phrase).encode("utf-8", "surrogatepass") + b"\1")
    return digest.hexdigest()[:20]


def _fitted_before(
    kept: "DiskCache | None", fingerprint: str, phrases: tuple[Phrase, ...], dimensions: int
) -> "Matcher | None":
    """Returns the cached fitted matcher; None when there is none that works."""
    import numpy as np

    from turnwise.matching.matcher import Matcher

    arrays = kept.matcher(fingerprint) if kept else None
    if kept is None or arrays is None:
        return None
    try:
        matcher = Matcher.from_arrays(phrases, arrays)
        # Tests it once: inconsistent parts would otherwise fail at every message, and after every restart.
        tried = matcher.match("hello", np.full(dimensions, dimensions**-0.5, np.float32))
        if not np.isfinite([*tried.probabilities, tried.novelty]).all():
            raise ValueError("no numbers")
        return matcher
    except (KeyError, ValueError, IndexError, TypeError) as problem:
        _log.info("A kept matcher cannot be used (%s) and is fitted again.", type(problem).__name__)
        kept.forget_matcher(fingerprint)
        return None


def _begun() -> "Future[Any]":
    """Returns a future that its waiters cannot cancel."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def _silent(what: str, done: int, total: int) -> None:
    """Ignores progress."""
