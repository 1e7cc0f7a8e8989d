"""Who answers what is no request for an article."""

from newsroom import archive
from turnwise import agent


@agent(description="Answers greetings and thanks, and says what the newsroom is for.")
def reception() -> str:
    titles = ", ".join(archive.titles())
    return f"Here at the newsroom we write articles. Say what yours shall be about; the archive has: {titles}."
