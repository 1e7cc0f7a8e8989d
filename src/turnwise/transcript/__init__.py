"""Transcripts: the log as one agent reads it, compiled into messages for a language model. Pure functions over events."""

from typing import TYPE_CHECKING

from turnwise.facts.face import face

if TYPE_CHECKING:
    from turnwise.transcript.compile import (
        Transcript as Transcript,
        compile_transcript as compile_transcript,
        problems as problems,
    )
    from turnwise.transcript.view import Budget as Budget, View as View

__all__, __getattr__ = face(
    __name__,
    {
        "turnwise.transcript.compile": "Transcript compile_transcript problems",
        "turnwise.transcript.view": "Budget View",
    },
)
