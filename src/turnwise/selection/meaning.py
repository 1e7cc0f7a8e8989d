"""What messages mean to the agents of a tree: one encoder, one matcher, and a memory of texts read lately."""

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

_QUICK_FIT = 800  # phrases: less than about a second
_BRIEF_TEXTS, _BRIEF_CHARACTERS = 4, 2_000
_log = logging.getLogger("turnwise.selection")


class EncodingStopped(EncoderError):
    """The work was given up, because the process ends or nobody wants it any more."""

    def __init__(self) -> None:
        super().__init__("It was closed before the agents' texts were read.", fix="Make another: what is closed stays closed.")


class Meaning:
    """Shared by all selectors of a policy that go by meaning. Safe to share between threads and event loops.

    Making one costs nothing; the first `read` or `prepare` makes it ready. A small tree's matcher is fitted then and there.
    For a larger one the nearest phrases decide at once, while the heads are fitted in a thread; the result is swapped in as
    a whole. A fit that fails is logged and the nearest phrases go on deciding.

    keep: a folder for vectors and fitted matchers (`matching.kept`); None = nothing is kept. progress: is told of the work,
    in the thread that does it. default: the agent that answers when nobody else fits; it counts by its examples alone
    (None: the tree's root). quick_fit: a tree with at most so many phrases counts as small.
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
        """What the agents count by, in the tree's order."""
        if self._phrases is None:
            self._phrases = phrases_of(self.tree, self._default)
        return self._phrases

    @property
    def fingerprint(self) -> str:
        """Identifies what readings depend on now: phrases, encoder, matcher and its state; empty before it is ready."""
        return self._served.fingerprint if self._served else ""

    def prepare(self, progress: Progress | None = None) -> None:
        """Makes it ready to read, in this thread; nothing to do if it is, and a wait if another thread is at it.

        EncoderError when the phrases cannot be encoded, and the next call tries again; or when it was closed before. What a
        fit raised is raised once; after that it reads by nearest phrases.
        """
        with self._one_at_a_time:
            if self._served is None:
                self._make_ready(progress or self._progress or _silent)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def read(self, texts: Sequence[str], *, together: bool = False) -> list[TextReading]:
        """One reading a text, in their order; over all agents of the tree that have something to go by.

        Waits until it is ready. A few short texts are read here and now when the encoder is local, others in a thread. All
        that is read in one `snapshot` block is read by one state. EncoderError when there is no vector for a text, or when it
        was closed before it was ready. together: for many texts, as in training: that is faster, and numbers of a text that is
        read among others may differ in the last digit.
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
        """The reading of what a user said. A long message is read part by part, too: its match is what all say together.

        EncoderError as `read`.
        """
        whole, *parts = await self.read([message, *segments(message)])
        return with_parts(whole, parts)

    def held(self) -> AbstractContextManager[Snapshot]:
        """A block in which one decision is made: what is swapped in meanwhile is for the next one."""
        return snapshot(self, self._served)

    async def fitted(self) -> bool:
        """Waits for the fit. Whether heads decide now; False when it was given up, or failed, which is raised once.
        EncoderError as `read`.
        """
        await self._ready()
        heads = await asyncio.wrap_future(self._heads)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        return heads

    async def tuned(self, texts: Sequence[str], labels: Sequence[str | None]) -> "Meaning":
        """This meaning with probabilities and novelty tuned to these texts; a label None: nobody should take that text.

        The texts are no examples. This one stays as it is.
        """
        await self.fitted()
        return await asyncio.to_thread(self._tuned, texts, labels)

    def close(self) -> None:
        """Gives up a fit that is under way; what it reads by stays. Nothing waits for it; calling again changes nothing."""
        self._closed.set()

    async def _state(self) -> TextReader:
        """What is read by: in a decision, what it was begun with, or first read by."""
        hold = snapshot_of(self)
        if hold is None:
            return self._served or await self._ready()
        if hold.served is None:
            found = self._served or await self._ready()
            hold.served = hold.served or found  # another task of this decision may have been first
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
            self.encoder.encode(["hello"])  # a model that is loaded at its first use should not delay a message
        smalltalk = SmallTalk.for_encoder(CachedEncoder(self.encoder, kept, progress))
        names = (words_of(card.name) for card in self.tree)  # of those too that count by nothing else
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
                # Not before: who reads meanwhile would be told something else than those who wait.
                self._served = self._served or served
        self._served = served
        # No daemon: a thread that is cut off inside a library can crash the interpreter on its way out.
        work = (served, phrases, vectors, fingerprint, self._stoppable(_silent))
        try:
            threading.Thread(target=self._fit, args=work, name="turnwise-fit").start()
        except RuntimeError:  # no more threads, or the interpreter is on its way out
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
            # The main thread is over before the interpreter waits for the others.
            if self._closed.is_set() or not threading.main_thread().is_alive():
                raise EncodingStopped
            progress(what, done, total)

        return step


def fingerprint_of(phrases: Sequence[Phrase], encoder: Encoder) -> str:
    """Twenty hexadecimal digits for what readings depend on: phrases, encoder, dictionary, and the version of matching."""
    from turnwise.matching.disk_cache import version
    from turnwise.matching.spelling import dictionary

    digest = hashlib.sha256(f"{version()}\0{encoder.fingerprint}\0{dictionary()}\0".encode())
    for phrase in phrases:
        digest.update("\0".join(phrase).encode("utf-8", "surrogatepass") + b"\1")
    return digest.hexdigest()[:20]


def _fitted_before(
    kept: "DiskCache | None", fingerprint: str, phrases: tuple[Phrase, ...], dimensions: int
) -> "Matcher | None":
    """The fitted matcher that is kept; None when there is none that works."""
    import numpy as np

    from turnwise.matching.matcher import Matcher

    arrays = kept.matcher(fingerprint) if kept else None
    if kept is None or arrays is None:
        return None
    try:
        matcher = Matcher.from_arrays(phrases, arrays)
        # Tried once: one whose parts do not belong together would fail at every message, and at every start.
        tried = matcher.match("hello", np.full(dimensions, dimensions**-0.5, np.float32))
        if not np.isfinite([*tried.probabilities, tried.novelty]).all():
            raise ValueError("no numbers")
        return matcher
    except (KeyError, ValueError, IndexError, TypeError) as problem:
        _log.info("A kept matcher cannot be used (%s) and is fitted again.", type(problem).__name__)
        kept.forget_matcher(fingerprint)
        return None


def _begun() -> "Future[Any]":
    """A future that those who wait for it cannot cancel."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def _silent(what: str, done: int, total: int) -> None:
    """Tells nobody."""
