"""Why a session waits, for `turnwise sessions show`."""

from datetime import UTC, datetime
from typing import Any

from turnwise.dispatch.engine import EngineSettings
from turnwise.facts.sessions import Session
from turnwise.runner import Runner
from turnwise.runner.pending import Pending, has_pending_work, pending_reasons


async def reasons(runner: Runner, session: Session, engine: str | None) -> tuple[Pending, ...]:
    """Returns why the session waits; with the address of an engine, also what is wrong with that."""
    found = await pending_reasons(runner.store, runner.sets.current, session, datetime.now(UTC))
    if engine is None or session.held or not has_pending_work(session):
        return found
    problem = await EngineSettings(engine).open(runner.app, runner.process.concurrency).problem()
    return found if problem is None else (Pending("engine", problem), *found)


def data(pending: Pending) -> dict[str, Any]:
    """A reason as JSON data."""
    return {
        "reason": pending.reason,
        "detail": pending.detail,
        "agent": pending.agent,
        "until": pending.until.isoformat() if pending.until else None,
        "invocation_id": pending.invocation_id,
        "process": pending.process,
    }
