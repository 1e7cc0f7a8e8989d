"""Two processes that save versions of one artifact at once."""

import asyncio
import subprocess
import sys
from pathlib import Path

from turnwise.facts.sessions import SessionKey
from turnwise.stores.artifacts.local import OnDiskArtifactStore

EACH = 50
_SAVE = """
import asyncio, sys
from turnwise.facts.sessions import SessionKey
from turnwise.stores.artifacts.local import OnDiskArtifactStore

async def main(folder, process, each):
    store = OnDiskArtifactStore(folder)
    key = SessionKey("shop", "ann", "s1")
    sys.stdin.readline()
    await asyncio.gather(*(store.save(key, "note", f"{process} {number}".encode()) for number in range(each)))

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def test_no_version_is_shared_and_none_is_lost(tmp_path: Path) -> None:
    """A28"""
    savers = [
        subprocess.Popen([sys.executable, "-c", _SAVE, str(tmp_path), name, str(EACH)], stdin=subprocess.PIPE, text=True)
        for name in ("first", "second")
    ]
    for saver in savers:
        assert saver.stdin is not None
        saver.stdin.write("go\n")
        saver.stdin.flush()
    for saver in savers:
        saver.communicate(timeout=60)
        assert saver.returncode == 0
    asyncio.run(_check(OnDiskArtifactStore(tmp_path)))


async def _check(store: OnDiskArtifactStore) -> None:
    key = SessionKey("shop", "ann", "s1")
    infos = await store.versions(key, "note")
    assert [info.version for info in infos] == list(range(1, 2 * EACH + 1))
    artifacts = [await store.load(key, "note", version=info.version) for info in infos]
    texts = sorted(artifact.data.decode() for artifact in artifacts if artifact)
    assert texts == sorted(f"{name} {number}" for name in ("first", "second") for number in range(EACH))
