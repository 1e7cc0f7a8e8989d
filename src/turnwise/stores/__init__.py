"""Stores: where sessions and artifacts are kept, and the protocols for stores of your own."""

from typing import TYPE_CHECKING

from turnwise.facts.face import face

if TYPE_CHECKING:
    from turnwise.facts.memory import (
        Entity as Entity,
        MemoryConfig as MemoryConfig,
        MemoryEntry as MemoryEntry,
        MemorySource as MemorySource,
        Recalled as Recalled,
    )
    from turnwise.facts.sessions import Head as Head, Session as Session, SessionKey as SessionKey
    from turnwise.ports.decisions import (
        Decision as Decision,
        DecisionFilter as DecisionFilter,
        Decisions as Decisions,
        Page as Page,
    )
    from turnwise.ports.maintenance import Maintenance as Maintenance, Usage as Usage
    from turnwise.ports.memory import (
        MemoryFilter as MemoryFilter,
        MemoryReader as MemoryReader,
        MemoryStore as MemoryStore,
        QueryVector as QueryVector,
    )
    from turnwise.ports.signals import Signals as Signals
    from turnwise.ports.stores import (
        Artifact as Artifact,
        ArtifactInfo as ArtifactInfo,
        ArtifactStore as ArtifactStore,
        Inbox as Inbox,
        Jobs as Jobs,
        Leases as Leases,
        SessionInfo as SessionInfo,
        SessionStore as SessionStore,
    )
    from turnwise.stores.artifacts.local import (
        InMemoryArtifactStore as InMemoryArtifactStore,
        OnDiskArtifactStore as OnDiskArtifactStore,
    )
    from turnwise.stores.artifacts.objects import ObjectArtifactStore as ObjectArtifactStore
    from turnwise.stores.sql.store import SqlSessionStore as SqlSessionStore

__all__, __getattr__ = face(
    __name__,
    {
        "turnwise.facts.memory": "Entity MemoryConfig MemoryEntry MemorySource Recalled",
        "turnwise.facts.sessions": "Head Session SessionKey",
        "turnwise.ports.decisions": "Decision DecisionFilter Decisions Page",
        "turnwise.ports.maintenance": "Maintenance Usage",
        "turnwise.ports.memory": "MemoryFilter MemoryReader MemoryStore QueryVector",
        "turnwise.ports.signals": "Signals",
        "turnwise.ports.stores": "Artifact ArtifactInfo ArtifactStore Inbox Jobs Leases SessionInfo SessionStore",
        "turnwise.stores.artifacts.objects": "ObjectArtifactStore",
        "turnwise.stores.artifacts.local": "InMemoryArtifactStore OnDiskArtifactStore",
        "turnwise.stores.sql.store": "SqlSessionStore",
    },
)
