"""A function of the user's own as an encoder."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from turnwise.facts.errors import EncoderError
from turnwise.models.encoders import CallableEncoder
from turnwise.ports.encoder import Encoder


def lengths(texts: list[str]) -> list[list[float]]:
    return [[len(text), 1.0] for text in texts]


def test_a_plain_function() -> None:
    encoder: Encoder = CallableEncoder(lengths, fingerprint="lengths-1")
    assert (encoder.fingerprint, encoder.dimensions, encoder.is_local) == ("lengths-1", 2, False)
    assert np.allclose(encoder.encode(("", "a")), [[0, 1], [0.5**0.5, 0.5**0.5]])
    assert encoder.encode([]).shape == (0, 2)
    assert CallableEncoder(lengths, fingerprint="x", is_local=True).is_local


def test_an_async_function_always_runs_on_one_loop() -> None:
    loops: set[asyncio.AbstractEventLoop] = set()

    async def slowly(texts: list[str]) -> list[list[float]]:
        await asyncio.sleep(0)
        loops.add(asyncio.get_running_loop())
        return lengths(texts)

    encoder = CallableEncoder(slowly, fingerprint="x")
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda number: encoder.encode(["a" * number])[0], range(20)))
    assert np.allclose(rows, CallableEncoder(lengths, fingerprint="y").encode(["a" * number for number in range(20)]))
    assert len(loops) == 1
    encoder.close()
    encoder.close()
    assert encoder.encode(["a"]).shape == (1, 2)
    assert len(loops) == 2
    encoder.close()


async def test_an_async_function_can_be_called_beside_a_running_loop() -> None:
    class Object:
        async def __call__(self, texts: list[str]) -> list[list[float]]:
            return lengths(texts)

    encoder = CallableEncoder(Object(), fingerprint="x")
    assert (await asyncio.to_thread(encoder.encode, ["a"])).shape == (1, 2)
    assert encoder.encode(["a"]).shape == (1, 2)
    encoder.close()


def test_closing_ends_the_thread() -> None:
    async def quick(texts: list[str]) -> list[list[float]]:
        return lengths(texts)

    before = set(threading.enumerate())
    encoder = CallableEncoder(quick, fingerprint="x")
    encoder.encode(["a"])
    (thread,) = set(threading.enumerate()) - before
    encoder.close()
    thread.join(10)
    assert not thread.is_alive()


def test_closing_leaves_nobody_waiting() -> None:
    begun = threading.Event()

    async def endless(texts: list[str]) -> list[list[float]]:
        begun.set()
        await asyncio.Event().wait()
        return lengths(texts)

    encoder = CallableEncoder(endless, fingerprint="x")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(encoder.encode, ["a"])
        assert begun.wait(10)
        encoder.close()
        with pytest.raises(EncoderError, match="CancelledError"):
            waiting.result(10)


def test_what_it_raises_or_gives_wrongly_is_an_error_without_the_texts() -> None:
    def fails(texts: list[str]) -> None:
        raise ValueError(f"cannot read {texts}")

    with pytest.raises(EncoderError, match=r"fails raised ValueError\.") as raised:
        CallableEncoder(fails, fingerprint="x").encode(["a secret"])
    assert "secret" not in str(raised.value)
    assert isinstance(raised.value.__cause__, ValueError)
    with pytest.raises(EncoderError, match="shape"):
        CallableEncoder(lambda _: [1.0], fingerprint="x").encode(["a"])
    with pytest.raises(EncoderError, match="3 finite numbers"):
        CallableEncoder(lengths, fingerprint="x", dimensions=3).encode(["a"])


def test_the_number_of_dimensions_may_not_change() -> None:
    encoder = CallableEncoder(lambda texts: [[1.0] * len(texts[0])], fingerprint="x")
    assert encoder.encode(["ab"]).shape == (1, 2)
    with pytest.raises(EncoderError, match="2 finite numbers"):
        encoder.encode(["abc"])
