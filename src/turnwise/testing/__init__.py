"""Help for tests: scripted models, fakes, and conformance suites for stores, selectors and signals of your own."""

from typing import TYPE_CHECKING

from turnwise.facts.face import face

if TYPE_CHECKING:
    from turnwise.testing.a2a_kit import kit_app as kit_app
    from turnwise.testing.fake_encoder import BagOfWordsEncoder as BagOfWordsEncoder
    from turnwise.testing.fakes import (
        CountingIssuer as CountingIssuer,
        FunctionGuardrail as FunctionGuardrail,
        RecordingHooks as RecordingHooks,
    )
    from turnwise.testing.models import (
        FunctionModel as FunctionModel,
        RecordedModel as RecordedModel,
        ScriptedModel as ScriptedModel,
        calls as calls,
    )
    from turnwise.testing.postgres import (
        PostgresServer as PostgresServer,
        new_postgres_database as new_postgres_database,
        postgres_url as postgres_url,
    )

__all__, __getattr__ = face(
    __name__,
    {
        "turnwise.testing.a2a_kit": "kit_app",
        "turnwise.testing.fake_encoder": "BagOfWordsEncoder",
        "turnwise.testing.fakes": "CountingIssuer FunctionGuardrail RecordingHooks",
        "turnwise.testing.models": "FunctionModel RecordedModel ScriptedModel calls",
        "turnwise.testing.postgres": "PostgresServer new_postgres_database postgres_url",
    },
)
