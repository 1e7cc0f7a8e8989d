"""Runs the app's guardrails on what is remembered and recalled."""

from turnwise.facts.content import text_content
from turnwise.facts.errors import AgentFailed
from turnwise.facts.memory import TEXT_CHARACTERS, MemoryEntry
from turnwise.runner.guards.guardrails import Guardrails


class MemoryGuard(Guardrails):
    """The guardrails of an app, for entries of the memory, too."""

    async def remembered(self, entry: MemoryEntry, agent: str | None) -> MemoryEntry:
        """Returns the entry as it may be remembered. Raises AgentFailed when a guardrail blocks it."""
        checked = await self.memory(entry, agent)
        if checked is None:
            raise AgentFailed("A guardrail does not let this be remembered.", fix="Leave it out, or remember something else.")
        return checked

    async def memory(self, entry: MemoryEntry, agent: str | None) -> MemoryEntry | None:
        """Returns an entry as it may be remembered or read; None when a guardrail blocks it."""
        if not self._guardrails:
            return entry
        passed = await self._run_all("memory", text_content(entry.text), agent)
        if not passed.guarded:
            return entry
        # An entity's value may be what was taken out.
        left = passed.content.text[:TEXT_CHARACTERS] if passed.content is not None else ""
        return entry.replace(text=left, entity=None, kind="fact" if entry.entity else entry.kind) if left.strip() else None
