import io
import json
import logging
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, strategies as st

from turnwise.facts.sessions import SessionKey
from turnwise.telemetry.logs import CHARACTERS, JsonLines, Redacting, TextLines, message_context, request_context

KEY = "tw_0123456789ab_" + "x" * 43


class Lines:
    """A logger of its own, and what is written of it."""

    def __init__(self, formatter: logging.Formatter) -> None:
        self.stream = io.StringIO()
        self.logger = logging.Logger("turnwise.shop")
        handler = logging.StreamHandler(self.stream)
        handler.setFormatter(formatter)
        handler.addFilter(Redacting())
        self.logger.addHandler(handler)

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def line(self) -> dict[str, Any]:
        """The only one, as JSON."""
        (line,) = self.text.splitlines()
        read: dict[str, Any] = json.loads(line)
        return read


@pytest.fixture
def lines() -> Lines:
    return Lines(JsonLines())


def fail() -> None:
    try:
        raise ValueError("my dog Rex is sick")
    except ValueError as cause:
        raise KeyError("and so is the cat") from cause


def test_a_line_is_an_object(lines: Lines) -> None:
    with request_context("r-1"), message_context(SessionKey("shop", "ada", "s-1"), "i-1"):
        lines.logger.info("%s came", "a parcel", extra={"status": 200, "ms": 1.5, "path": "/x"})
    line = lines.line
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "turnwise.shop",
        "message": "a parcel came",
        "request": "r-1",
        "session": "s-1",
        "invocation": "i-1",
        "app": "shop",
        "status": 200,
        "ms": 1.5,
        "path": "/x",
    }


def test_what_is_not_known_is_left_out(lines: Lines) -> None:
    lines.logger.warning("alone")
    assert set(lines.line) == {"time", "level", "logger", "message"}


def test_nobody_writes_a_line_for_another(lines: Lines) -> None:
    """Line breaks of every kind, and what would move a terminal's cursor or the reading direction, are escaped."""
    said = 'one\n{"level": "error"}\r\u2028two\u0085\x1b[2J\u202ethree\ud800'
    lines.logger.info(said, extra={"name of\nmine": said, "level": "forged", "time": "never"})
    written = lines.text
    assert written.count("\n") == 1
    assert len(written.splitlines()) == 1
    assert not set("\r\u2028\u0085\x1b\u202e\ud800") & set(written)
    assert (lines.line["level"], lines.line["message"]) == ("info", said)


@given(st.text(), st.text(), st.dictionaries(st.text(min_size=1).filter(lambda n: n not in {"message", "asctime"}), st.text()))
def test_any_text_is_one_line_that_can_be_read(text: str, argument: str, more: dict[str, str]) -> None:
    usual = logging.LogRecord("", 0, "", 0, "", None, None).__dict__
    more = {name: value for name, value in more.items() if name not in usual}
    for formatter in (JsonLines(), TextLines()):
        lines = Lines(formatter)
        lines.logger.info(text.replace("%", "%%") + "%s", argument, extra=more)
        assert len(lines.text.splitlines()) == 1
        if isinstance(formatter, JsonLines):
            assert lines.line["logger"] == "turnwise.shop"


def test_secrets_are_in_no_line(lines: Lines) -> None:
    """Neither in the message, nor its arguments, nor what is given beside it."""
    lines.logger.info(f"{KEY} of %s at %s", f"Bearer {KEY}", "postgresql://ada:hunter2@h/db", extra={"header": f"Bearer {KEY}"})
    assert "x" * 20 not in lines.text
    assert "hunter2" not in lines.text
    assert lines.line["message"] == "tw_0123456789ab_*** of Bearer *** at postgresql://ada:***@h/db"


def test_the_filter_alone_protects_a_handler_of_ones_own() -> None:
    lines = Lines(logging.Formatter("%(message)s"))
    lines.logger.info("%s", KEY)
    assert lines.text == "tw_0123456789ab_***\n"


@pytest.mark.parametrize("formatter", [JsonLines(), TextLines()], ids=["json", "text"])
def test_an_exception_is_told_without_its_words(formatter: logging.Formatter) -> None:
    """They may be a user's."""
    lines = Lines(formatter)
    try:
        fail()
    except KeyError:
        lines.logger.exception("It failed.")
    assert "Rex" not in lines.text
    assert "cat" not in lines.text
    for told in ("KeyError", "ValueError", "test_logs.py", "fail"):
        assert told in lines.text


def test_who_debugs_is_told_the_words_too() -> None:
    for formatter in (JsonLines(debug=True), TextLines(debug=True)):
        lines = Lines(formatter)
        try:
            raise ValueError(f"bad key {KEY}")
        except ValueError:
            lines.logger.exception("It failed.")
        assert "bad key tw_0123456789ab_***" in lines.text


def test_the_calls_of_an_exception_and_its_causes_are_told(lines: Lines) -> None:
    try:
        fail()
    except KeyError:
        lines.logger.exception("It failed.")
    told = lines.line["exception"]
    assert told["type"] == "KeyError"
    assert [call.rpartition(" ")[2] for call in told["calls"]][-1] == "fail"
    assert [cause["type"] for cause in told["causes"]] == ["ValueError"]


def test_exceptions_that_cause_each_other_come_to_an_end(lines: Lines) -> None:
    one, two = ValueError(), KeyError()
    one.__cause__, two.__cause__ = two, one
    lines.logger.error("loop", exc_info=one)
    assert [cause["type"] for cause in lines.line["exception"]["causes"]] == ["KeyError"]


def test_arguments_that_do_not_fit_are_not_printed(lines: Lines, capsys: pytest.CaptureFixture[str]) -> None:
    lines.logger.info("%d of it", "my dog Rex is sick")
    assert lines.line["message"] == "%d of it (with arguments that do not fit)"
    assert capsys.readouterr().err == ""


def test_long_texts_are_cut(lines: Lines) -> None:
    lines.logger.info("x" * 100_000, extra={"more": "y" * 100_000})
    assert len(lines.line["message"]) == len(lines.line["more"]) == CHARACTERS + 1


def test_values_that_json_has_not_are_texts(lines: Lines) -> None:
    lines.logger.info("odd", extra={"a": float("nan"), "b": [1], "c": None, "d": True})
    assert [lines.line[name] for name in "abcd"] == ["nan", "[1]", None, True]


def test_at_a_terminal_a_line_is_for_people() -> None:
    lines = Lines(TextLines())
    with request_context("r-1"):
        lines.logger.warning("It is\nlate.")
    assert lines.text.endswith("Z warning turnwise.shop: It is\\nlate. request=r-1\n")


PROGRAM = """
import io, json, logging, sys
from turnwise.telemetry.logs import logging_to
class Terminal(io.StringIO):
    def isatty(self): return True
ours, theirs = logging.getLogger("turnwise.shop"), logging.getLogger("theirs")
for stream in (io.StringIO(), Terminal()):
    with logging_to(stream):
        ours.info("ours"); ours.debug("too small"); theirs.info("none of ours"); theirs.warning("theirs")
    ours.warning("behind")
    print([line.startswith("{") for line in stream.getvalue().splitlines()])
with logging_to(stream, level="DEBUG", form="json"):
    ours.debug("small")
print(json.loads(stream.getvalue().splitlines()[-1])["message"])
logging.basicConfig(stream=sys.stdout, format="its own: %(message)s")
with logging_to(stream):
    ours.warning("mine")
print(stream.getvalue().count("mine"))
"""


def test_a_program_says_where_its_lines_go() -> None:
    """JSON to a file or pipe, text to a terminal; and what the program itself has set up stays."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == ["[True, True]", "[False, False]", "small", "its own: mine", "0"]
    assert done.stderr.splitlines() == ["behind", "behind"], "Python's own way to tell warnings that nobody wants"
