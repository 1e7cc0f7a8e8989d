"""The agents as functions: they work without a model, on what the archive says."""

from newsroom import archive
from newsroom.figures import figures, rounded
from newsroom.results import Draft, Finding, Note
from turnwise import AgentContext, agent

MOST_SENTENCES = 6


@agent(description="Finds what the archive says about a subject.")
async def researcher(context: AgentContext) -> None:
    part = context.assignment
    assert part is not None
    found = archive.search(part.request.text)
    if not found:
        titles = ", ".join(archive.titles())
        reply = await context.ask(f"The archive has nothing about that. It has: {titles}. What shall the article be about?")
        found = archive.search(reply.text)
    if not found:
        await part.fail("The archive has nothing about it.")
        return
    notes = [Note(text=each.text, source=each.source, day=each.day) for each in found]
    await part.succeed([note.model_dump() for note in notes])


@agent(description="Writes articles from notes.")
async def writer(context: AgentContext) -> None:
    part = context.assignment
    assert part is not None
    notes = _notes(part.tasks[0].given["research"])
    # The newest comes first, as in a newspaper; and large figures are made easy to read.
    newest = max(note.day for note in notes)
    ordered = [note for note in notes if note.day == newest] + [note for note in notes if note.day != newest]
    await part.succeed(Draft(sentences=[rounded(note.text) for note in ordered]).model_dump())


@agent(description="Checks every sentence of a draft against the notes.")
async def fact_checker(context: AgentContext) -> None:
    part = context.assignment
    assert part is not None
    given = part.tasks[0].given
    notes, draft = _notes(given["research"]), Draft.model_validate(given["draft"])
    findings = [finding for sentence in draft.sentences if (finding := _checked(sentence, notes))]
    await part.succeed([finding.model_dump() for finding in findings])


@agent(description="Finds headlines, and makes drafts fit to print.")
async def editor(context: AgentContext) -> None:
    part = context.assignment
    assert part is not None
    task = part.tasks[0]
    if task.name == "headline":
        await part.succeed(_headline(_notes(task.given["research"]), part.request.text))
        return
    draft = Draft.model_validate(task.given["draft"])
    findings = {finding.sentence: finding.correction for finding in map(Finding.model_validate, _listed(task.given["check"]))}
    kept = [text for sentence in draft.sentences if (text := findings.get(sentence, sentence))]
    await part.succeed(f"{task.given['headline']}\n\n{' '.join(kept[:MOST_SENTENCES])}")


def _checked(sentence: str, notes: list[Note]) -> Finding | None:
    """What is wrong with the sentence; None when the notes have all its figures and words."""
    plain = set(archive.words(sentence))
    nearest = max(notes, key=lambda note: len(plain & set(archive.words(note.text))))
    unknown = [figure for figure in figures(sentence) if figure not in figures(nearest.text)]
    if unknown:
        return Finding(sentence=sentence, problem=f"{unknown[0]} is not what {nearest.source} says", correction=nearest.text)
    if not plain <= set(archive.words(nearest.text)):
        return Finding(sentence=sentence, problem="nothing in the notes bears it out")
    return None


def _headline(notes: list[Note], request: str) -> str:
    """The title of the newest text that the request asks for."""
    asked = set(archive.words(request))
    titles = {each.source: each.title for each in archive.sentences()}
    by_fit = sorted(notes, key=lambda note: (len(asked & set(archive.words(titles[note.source]))), note.day))
    return titles[by_fit[-1].source]


def _notes(given: object) -> list[Note]:
    return [Note.model_validate(each) for each in _listed(given)]


def _listed(given: object) -> list[object]:
    assert isinstance(given, list)
    return given
