"""One flow from its request to its answer, read from its log: who was chosen and why, what each model was shown, what it
called, and who came next (D3, D4).
"""

from collections.abc import Callable

from flow_play import closings, done, ended, turns, words
from runner_play import ask, direct, reason

from turnwise import LlmAgent, Runner
from turnwise.flows.flow import Flow
from turnwise.flows.tasks import Task
from turnwise.testing.models import ScriptedModel, calls

Process = Callable[..., Runner]


async def look_up(animal: str) -> str:
    """Looks an animal up."""
    return f"{animal}: 15 hours"


async def test_a_flow_goes_from_ready_tasks_to_the_next_agent(process: Process) -> None:
    """D3: ready tasks, the pool, the active agent, the context, the tools, the calls, and the next agent."""
    cats = ScriptedModel("Let me look.", calls("look_up", {"animal": "cat"}), done("15 h"))
    whales = ScriptedModel(done("2 h"))
    writer = ScriptedModel(calls("end_turn", {"next": "editor", "message": "Is it short enough?"}), done("Cats sleep most."))
    editor = ScriptedModel(["Hm.", calls("end_turn", {"next": "writer", "message": "Make it shorter."})])
    flow = Flow(
        "flow",
        [
            Task("cats", "Facts about cats", agents=[LlmAgent("cat_lover", model=cats)], tools=[look_up]),
            Task("whales", "Facts about whales", agents=[LlmAgent("sailor", model=whales)]),
            Task(
                "text",
                "Write it",
                agents=[LlmAgent("writer", model=writer), LlmAgent("editor", model=editor)],
                depends_on=["cats", "whales"],
            ),
        ],
    )
    runner = process(flow)
    result = await ask(runner, "How do animals sleep?", context=direct("flow"))
    log = await runner.store.events(runner.key("ada", "s"))

    # Who had the turn: who is at work stays at work, a colleague that was named comes next, else the strategy chooses.
    assert turns(log) == [
        ("cat_lover", "popcorn", ("cats",)),
        ("cat_lover", "active", ("cats",)),
        ("sailor", "popcorn", ("whales",)),
        ("writer", "popcorn", ("text",)),
        ("editor", "named", ("text",)),
        ("writer", "named", ("text",)),
    ]
    # Why, in words that name the pool: D4, it is in the log, with the branch that it led to.
    reasons = [event.actions.selection.reason for event in log if event.author == "flow" and event.actions.selection]
    assert reasons[0].endswith("In the pool: cat_lover (1 ready task), sailor (1 ready task).")
    assert reasons[1].startswith("cat_lover is at work.")
    assert reasons[2] == "Only sailor has a ready task."
    assert reasons[4] == "editor was named as the next. In the pool: writer (1 ready task), editor (1 ready task)."

    # What a model is shown: the request, its task, what the task builds on; the tools of its tasks beside those of the turn.
    first, second, third = cats.requests
    assert words(first).startswith("How do animals sleep?")
    assert words(first).endswith("""<said by="flow" to="you">Your task 'cats': Facts about cats</said>""")
    assert [tool.name for tool in first.tools] == ["task_succeeded", "task_failed", "end_turn", "look_up"]
    assert "look_up" not in [tool.name for tool in whales.requests[0].tools]
    assert "Let me look." in words(second)  # in its next turn it knows what it said, and goes on
    assert [part.result for part in third.messages[-1].tool_results] == ["cat: 15 hours"]
    assert "- cats: 15 h\n- whales: 2 h</said>" in words(writer.requests[0])

    # A word to a colleague arrives, once.
    assert "writer tells you: Is it short enough?" in words(editor.requests[0])
    assert "editor tells you: Make it shorter." in words(writer.requests[1])

    # What became of it.
    assert {name: (each.status, each.result, each.by, each.turn) for name, each in closings(log).items()} == {
        "cats": ("successful", "15 h", "cat_lover", 2),
        "whales": ("successful", "2 h", "sailor", 3),
        "text": ("successful", "Cats sleep most.", "writer", 6),
    }
    told = ended(log)
    assert (told["reason"], told["turns"], told["model_calls"]) == ("complete", 6, 7)
    assert (reason(result), result.text.splitlines()[-1]) == ("completed", "Cats sleep most.")
