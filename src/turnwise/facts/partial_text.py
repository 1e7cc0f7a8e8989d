"""Assembles a text that arrives in pieces."""


class PartialText:
    """The beginning of a text, as far as its pieces arrived.

    A repeated piece counts once. A piece after a gap is ignored until the gap is filled; the final event brings the whole text.

    Attributes:
        length: The number of characters assembled.
    """

    def __init__(self) -> None:
        self.length = 0
        self._pieces: list[str] = []
        self._end = 0

    @property
    def text(self) -> str:
        """The assembled characters."""
        return "".join(self._pieces)

    def add(self, piece: str, offset: int | None = None) -> str:
        """Adds a piece and returns the part of it that continues the text; often all, "" if it repeats or leaves a gap.

        Args:
            piece: The piece.
            offset: The number of characters before the piece; None if it follows the previous one.
        """
        begin = self._end if offset is None else offset
        self._end = begin + len(piece)
        new = piece[self.length - begin :] if begin <= self.length else ""
        self._pieces.append(new)
        self.length += len(new)
        return new
