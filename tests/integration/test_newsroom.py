"""The example newsroom: a flow of functions, and the same flow with a model behind its agents."""

import sys
from pathlib import Path

import pytest
from runner_play import ask, reason

from turnwise import Runner, SqlSessionStore
from turnwise.assemble import load_app
from turnwise.flows.flow import Flow
from turnwise.flows.logged import data_of, task_end_of
from turnwise.ports.model import ModelRequest
from turnwise.runner import Result
from turnwise.testing.models import FunctionModel, calls

NEWSROOM = Path(__file__).resolve().parents[2] / "examples" / "newsroom"


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Flow:
    monkeypatch.syspath_prepend(str(NEWSROOM))
    monkeypatch.delenv("NEWSROOM_MODEL", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "newsroom"]:
        monkeypatch.delitem(sys.modules, name)
    from newsroom.desk import desk

    found: Flow = desk
    return found


def ended(result: Result) -> dict[str, str]:
    """Who ended which task, in order."""
    closings = [closing for event in result.events if (closing := task_end_of(event)) is not None]
    return {closing.task: closing.by for closing in closings}


async def test_an_article_says_only_what_the_archive_says(desk: Flow) -> None:
    from newsroom import archive
    from newsroom.figures import figures

    runner = Runner(desk, store=SqlSessionStore("sqlite://"))
    result = await ask(runner, "Write about the harbour bridge")
    await runner.close()
    assert reason(result) == "completed"
    headline, _, article = result.text.partition("\n\n")
    assert headline in archive.titles()
    known = {figure for each in archive.sentences() for figure in figures(each.text)}
    assert "1,482" in figures(article)
    assert set(figures(article)) <= known, "what the writer rounded is mended"
    assert ended(result) == {
        "research": "researcher",
        "draft": "writer",
        "headline": "editor",
        "check": "fact_checker",
        "edit": "editor",
    }


async def test_it_asks_when_the_archive_has_nothing(desk: Flow) -> None:
    runner = Runner(desk, store=SqlSessionStore("sqlite://"))
    asked = await ask(runner, "Tell me about dinosaurs")
    assert asked.waiting
    assert "The harbour festival" in asked.text
    result = await ask(runner, "the library then")
    assert result.text.startswith("The library opens again\n\n")
    nothing = await ask(runner, "Tell me about dinosaurs")
    assert nothing.waiting
    failed = await ask(runner, "elephants")
    await runner.close()
    assert reason(failed) == "failed"
    told = data_of(next(event for event in reversed(failed.events) if data_of(event, "flow")), "flow")
    assert told is not None
    assert told["tasks"]["edit"]["reason"] == "'research' failed: The archive has nothing about it."  # type: ignore[call-overload,index]


async def test_the_same_flow_with_a_model(desk: Flow) -> None:
    """Each agent looks, then gives its result; what does not fit its type goes back."""
    from newsroom.desk import newsroom
    from newsroom.thinking import agents

    notes = [{"text": "It is 1,482 metres long.", "source": "harbour-bridge-opens", "day": "2024-05-14"}]
    results = {
        "'research'": notes,
        "'draft'": {"sentences": ["It is 1,500 metres long."]},
        "'headline'": "A bridge",
        "'check'": [{"sentence": "It is 1,500 metres long.", "problem": "figure", "correction": "It is 1,482 metres long."}],
        "'edit'": "A bridge\n\nIt is 1,482 metres long.",
    }
    searched: list[str] = []
    misfits: list[str] = []

    def thinks(request: ModelRequest) -> object:
        task = next(name for name in results if f"on the task {name}" in request.instructions)
        said = "".join(part.text for message in request.messages for part in message.parts if hasattr(part, "text"))
        told = str(request.messages[-1].tool_results)
        if task == "'research'" and "harbour-bridge-opens" not in told:
            searched.append(said)
            return calls("search_archive", {"query": "harbour bridge"})
        if task == "'draft'" and not misfits:
            misfits.append(task)
            return calls("task_succeeded", {"result": {"sentences": []}})
        return calls("task_succeeded", {"result": results[task]})  # type: ignore[dict-item]

    runner = Runner(newsroom(*agents(FunctionModel(thinks))), store=SqlSessionStore("sqlite://"))
    result = await ask(runner, "Write about the harbour bridge")
    await runner.close()
    assert result.text == "A bridge\n\nIt is 1,482 metres long."
    assert len(searched) == 1
    assert len(ended(result)) == 5


async def test_its_configuration_loads(desk: Flow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEWSROOM_SESSIONS", str(tmp_path / "s.db"))
    app = load_app(NEWSROOM / "turnwise.yaml")
    result = await ask(app.runner, "Write about the tram to the airport")
    assert result.text.startswith("A tram to the airport\n\n")
    thanks = await ask(app.runner, "thanks")
    await app.runner.close()
    assert result.selection is not None
    assert thanks.selection is not None
    assert (result.selection.agent, thanks.selection.agent) == ("newsroom", "reception")
    assert thanks.text.startswith("Here at the newsroom we write articles.")
