"""What the tasks of the newsroom give to each other."""

from pydantic import BaseModel, Field


class Note(BaseModel):
    """One fact, word for word as the archive has it."""

    text: str
    source: str = Field(description="The text of the archive that it comes from.")
    day: str = Field(description="The day of that text, as 2025-02-28.")


class Draft(BaseModel):
    """An article, sentence by sentence."""

    sentences: list[str] = Field(min_length=1)


class Finding(BaseModel):
    """A sentence of a draft that the notes do not bear out."""

    sentence: str
    problem: str
    correction: str = Field(default="", description="The sentence as the notes have it; empty when it has to go.")
