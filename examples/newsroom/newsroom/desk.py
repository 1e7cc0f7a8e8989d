"""The newsroom as a flow: notes, then a draft and a headline side by side, a check, and the article."""

import os
from collections.abc import Sequence

from newsroom.results import Draft, Finding, Note
from turnwise import Flow, Task
from turnwise.agents import Agent
from turnwise.flows import Popcorn


def newsroom(researcher: Agent, writer: Agent, fact_checker: Agent, editor: Agent) -> Flow:
    """The flow, with these four at work."""
    research = Task(
        "research",
        "Find what the archive says about the request: facts word for word, each with its source and day.",
        agents=[researcher],
        result=list[Note],
        interactive=True,
    )
    draft = Task("draft", "Write a short article from the notes.", agents=[writer], depends_on=[research], result=Draft)
    headline = Task("headline", "Find a headline of at most eight words.", agents=[editor], depends_on=[research])
    check = Task(
        "check",
        "Find the sentences of the draft that the notes do not bear out.",
        agents=[fact_checker],
        depends_on=[draft, research],
        result=list[Finding],
    )
    edit = Task(
        "edit",
        "Write the article as it is printed: headline, empty line, the draft with every finding mended.",
        agents=[editor],
        depends_on=[draft, headline, check],
    )
    return Flow(
        "newsroom",
        [research, draft, headline, check, edit],
        strategy=Popcorn(),
        side_by_side=2,
        description="Writes an article about something in the city from the newspaper's archive.",
        resume="never",  # each article is asked for anew: thanks for one are no request for another
        examples=[
            "Write about the harbour bridge",
            "An article on the library, please",
            "And about the night buses",
            "Tell me about the new tram",
            "What does the archive say about the market?",
        ],
    )


def _agents(model: str) -> Sequence[Agent]:
    if not model:
        from newsroom.working import editor, fact_checker, researcher, writer

        return researcher, writer, fact_checker, editor
    from newsroom.thinking import agents  # needs the extra `llm`

    return agents(model)


desk = newsroom(*_agents(os.environ.get("NEWSROOM_MODEL", "")))
