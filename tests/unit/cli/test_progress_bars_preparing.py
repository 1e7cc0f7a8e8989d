"""Making ready. (With a bar, at a real terminal: tests/integration/cli.)"""

from collections.abc import Sequence
from typing import Any

import pytest

from turnwise import Runner, SqlSessionStore, agent
from turnwise.cli.progress_bars import prepare
from turnwise.facts.errors import EncoderError
from turnwise.testing.fake_encoder import BagOfWordsEncoder


class Away(BagOfWordsEncoder):
    def encode(self, texts: Sequence[str]) -> Any:
        raise EncoderError("The encoder is away.", fix="Bring it back.")


@agent(examples=["where is my parcel"])
def desk() -> str:
    return "hi"


async def test_what_is_needed_is_prepared_in_silence(capsys: pytest.CaptureFixture[str]) -> None:
    encoder = BagOfWordsEncoder()
    runner = Runner(desk, store=SqlSessionStore("sqlite://"), policy="staples", encoder=encoder)
    await prepare(runner)
    assert encoder.calls > 0
    await runner.close()
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


async def test_what_cannot_be_prepared_is_told_and_is_no_end(capsys: pytest.CaptureFixture[str]) -> None:
    runner = Runner(desk, store=SqlSessionStore("sqlite://"), policy="staples", encoder=Away())
    await prepare(runner)
    assert (await runner.select("hello")).method == "default_fallback"
    await runner.close()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-2:] == ["error[encoder]: The encoder is away.", "  Bring it back."]
