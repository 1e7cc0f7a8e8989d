"""Where a runner keeps sessions: in memory, at a URL, in a store that it is given."""

from pathlib import Path

import pytest

from turnwise import Runner, SqlSessionStore, agent
from turnwise.facts.errors import ConfigError, SessionMissing


@agent
def counting(message: str, context: object) -> str:
    return f"heard {message}"


def test_without_a_store_it_keeps_them_in_memory() -> None:
    runner, other = Runner(counting), Runner(counting)
    there = runner.config.replace(create_session=False)
    assert runner.run_sync("one", user="ann", session="s").text == "heard one"
    assert runner.run_sync("two", user="ann", session="s", config=there).text == "heard two"
    with pytest.raises(SessionMissing):  # each has its own memory
        other.run_sync("one", user="ann", session="s", config=there)


def test_a_url_names_the_database(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    Runner(counting, store=url).run_sync("one", user="ann", session="s")
    again = Runner(counting, store=SqlSessionStore(url))
    config = again.config.replace(create_session=False)
    assert again.run_sync("two", user="ann", session="s", config=config).text == "heard two"


@pytest.mark.parametrize("wrong", [SqlSessionStore, None, 7, {}, object()])
def test_what_keeps_nothing_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match="session store"):
        Runner(counting, store=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["nonsense", "mysql://host/db", ""])
def test_a_url_of_no_database_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        Runner(counting, store=url)
