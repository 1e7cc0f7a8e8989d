"""Conformance suite for `ArtifactStore`: test cases that a test calls (behaviour A28).

    @pytest.mark.parametrize("case", artifact_store_suite.CASES, ids=lambda case: case.__name__)
    def test_my_store(case, tmp_path):
        asyncio.run(case(MyStore(tmp_path)))

Each case uses new users, so all cases may share one store. A case fails with AssertionError.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable

from turnwise.facts.errors import ArtifactError, ArtifactName, ArtifactTooLarge
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import ArtifactInfo, ArtifactStore

Case = Callable[[ArtifactStore], Awaitable[None]]
AT_ONCE = 12

GOOD_NAMES = (
    "report.pdf",
    "letters/2026/january.txt",
    "a",
    "a.b",
    "a/b",
    "a%2Fb",
    "A",
    ".hidden",
    "...",
    "with space ~ and ?*:|<>\"'#&",
    "grüße 見積書 🙂.txt",
    "x" * 255,
    "見" * 85,
    "users:x",
    "user",
)
BAD_NAMES = (
    "",
    ".",
    "..",
    "../secret",
    "a/../../secret",
    "a/./b",
    "a//b",
    "a/",
    "/etc/passwd",
    "C:/windows",
    "a\\b",
    "..\\secret",
    "nul\0byte",
    "line\nbreak",
    "half \ud83d",
    "x" * 256,
    "見" * 86,
    "user:",
    "user:../secret",
    "user:/etc/passwd",
)
STRANGE_IDS = ("../x", "..", ".", "", "a/b", "a", "a%2Fb", "nul\0byte", "C:\\x", "名前", "x" * 300, "x" * 301, "half \ud83d")


async def versions_count_up_and_the_latest_is_the_default(store: ArtifactStore) -> None:
    key = _fresh()
    saved = [await store.save(key, "note.txt", f"text {number}".encode(), mime_type="text/plain") for number in (1, 2, 3)]
    assert saved == [ArtifactInfo("note.txt", number, "text/plain", 6) for number in (1, 2, 3)]
    assert await store.versions(key, "note.txt") == tuple(saved)
    latest, second = await store.load(key, "note.txt"), await store.load(key, "note.txt", version=2)
    assert latest == (saved[2], b"text 3")
    assert second == (saved[1], b"text 2")


async def what_is_missing_is_none_or_empty(store: ArtifactStore) -> None:
    key = _fresh()
    assert await store.load(key, "note.txt") is None
    assert await store.versions(key, "note.txt") == ()
    assert await store.list(key) == ()
    await store.save(key, "note.txt", b"1")
    for version in (-1, 0, 2, 10**6):
        assert await store.load(key, "note.txt", version=version) is None, version
    assert await store.load(_sibling(key), "note.txt") is None


async def bytes_type_and_size_come_back_as_they_were(store: ArtifactStore) -> None:
    key = _fresh()
    for number, data in enumerate((b"", bytes(range(256)), b"x" * 6_000_000)):
        info = await store.save(key, f"{number}", data, mime_type=f'multipart/mixed; boundary="{number}"')
        assert info == (f"{number}", 1, f'multipart/mixed; boundary="{number}"', len(data))
        assert await store.load(key, f"{number}") == (info, data)
    plain = await store.save(key, "plain", b"x")
    assert plain.mime_type == "application/octet-stream"


async def good_names_are_kept_apart_and_listed_in_order(store: ArtifactStore) -> None:
    key = _fresh()
    names = [*GOOD_NAMES, *(f"user:{name}" for name in GOOD_NAMES)]
    for name in names:
        await store.save(key, name, name.encode())
    await store.save(key, "a", b"newer")
    listed = await store.list(key)
    assert [info.name for info in listed] == sorted(names)
    assert {info.name: info.version for info in listed if info.version > 1} == {"a": 2}
    for name in names:
        found = await store.load(key, name, version=1)
        assert found is not None, name
        assert found.data == name.encode(), name


async def bad_names_are_refused_everywhere(store: ArtifactStore) -> None:
    key = _fresh()
    for name in BAD_NAMES:
        for call in (store.save(key, name, b"x"), store.load(key, name), store.versions(key, name), store.delete(key, name)):
            assert await _refused(call, ArtifactName), name
    assert await store.list(key) == ()


async def bad_mime_types_are_refused(store: ArtifactStore) -> None:
    key = _fresh()
    for mime_type in ("", "text/plain\r\nx-evil: 1", "text/größe", "x" * 256):
        assert await _refused(store.save(key, "a", b"x", mime_type=mime_type), ArtifactError), mime_type
    assert await store.list(key) == ()


async def users_names_are_shared_by_their_sessions_alone(store: ArtifactStore) -> None:
    key = _fresh()
    first = await store.save(key, "user:photo", b"1")
    own = await store.save(key, "photo", b"2")
    assert await store.load(_sibling(key), "user:photo") == (first, b"1")
    second = await store.save(_sibling(key), "user:photo", b"3")
    assert second.version == 2
    assert await store.list(key) == (own, second)
    assert await store.list(_sibling(key)) == (second,)
    for stranger in (key._replace(user="other"), key._replace(app="other")):
        assert await store.load(stranger, "user:photo") is None
        assert await store.list(stranger) == ()


async def strange_ids_neither_leave_their_place_nor_meet(store: ArtifactStore) -> None:
    fresh = _fresh()
    keys = [fresh._replace(id=id_) for id_ in STRANGE_IDS]
    keys += [fresh._replace(user=fresh.user + id_) for id_ in STRANGE_IDS if id_]
    keys += [fresh._replace(app=fresh.user + id_) for id_ in STRANGE_IDS]
    for number, key in enumerate(keys):
        await store.save(key, "note", str(number).encode())
    for number, key in enumerate(keys):
        found = await store.load(key, "note")
        assert found is not None, key
        assert found.data == str(number).encode(), key
        assert found.info.version == 1, key
        assert [info.name for info in await store.list(key)] == ["note"], key


async def saves_at_once_never_share_a_version(store: ArtifactStore) -> None:
    key = _fresh()
    saved = await asyncio.gather(*(store.save(key, "note", str(number).encode()) for number in range(AT_ONCE)))
    assert sorted(info.version for info in saved) == list(range(1, AT_ONCE + 1))
    for number, info in enumerate(saved):
        assert await store.load(key, "note", version=info.version) == (info, str(number).encode())


async def delete_takes_all_versions_of_one_name(store: ArtifactStore) -> None:
    key = _fresh()
    for name in ("a", "a", "a.b", "user:a"):
        await store.save(key, name, b"x")
    await store.delete(key, "a")
    await store.delete(key, "a")
    assert await store.load(key, "a") is None
    assert await store.versions(key, "a") == ()
    assert [info.name for info in await store.list(key)] == ["a.b", "user:a"]
    assert (await store.save(key, "a", b"x")).version == 1
    await store.delete(_sibling(key), "user:a")
    assert await store.load(key, "user:a") is None


async def delete_session_leaves_what_is_the_users(store: ArtifactStore) -> None:
    key = _fresh()
    longer = key._replace(id=key.id + "1")
    for name in ("a", "b", "user:a"):
        await store.save(key, name, b"x")
    await store.save(longer, "a", b"x")
    await store.delete_session(key)
    await store.delete_session(key)
    assert [info.name for info in await store.list(key)] == ["user:a"]
    assert [info.name for info in await store.list(longer)] == ["a", "user:a"]


async def delete_user_takes_everything_of_that_user(store: ArtifactStore) -> None:
    key = _fresh()
    others = (key._replace(user=key.user + "1"), key._replace(app=key.app + "1"))
    for each in (key, _sibling(key), *others):
        await store.save(each, "a", b"x")
        await store.save(each, "user:a", b"x")
    await store.delete_user(key.app, key.user)
    await store.delete_user(key.app, key.user)
    assert await store.list(key) == await store.list(_sibling(key)) == ()
    for each in others:
        assert [info.name for info in await store.list(each)] == ["a", "user:a"], each


async def too_large_is_refused(store: ArtifactStore, max_bytes: int) -> None:
    """Not in CASES: needs a store that was built with this `max_bytes`."""
    key = _fresh()
    assert await _refused(store.save(key, "a", b"x" * (max_bytes + 1)), ArtifactTooLarge)
    assert await store.list(key) == ()
    assert (await store.save(key, "a", b"x" * max_bytes)).version == 1


async def all_versions_of_a_user_count(store: ArtifactStore) -> None:
    """`used_bytes` counts all versions of a user's artifacts, in all sessions."""
    key, other = _fresh(), _fresh()
    assert await store.used_bytes(key.app, key.user) == 0
    await store.save(key, "a", b"12345")
    await store.save(key, "a", b"1234")
    await store.save(_sibling(key), "user:b", b"123")
    await store.save(other, "a", b"1")
    assert await store.used_bytes(key.app, key.user) == 12
    await store.delete(key, "a")
    assert await store.used_bytes(key.app, key.user) == 3


CASES: tuple[Case, ...] = (
    versions_count_up_and_the_latest_is_the_default,
    what_is_missing_is_none_or_empty,
    bytes_type_and_size_come_back_as_they_were,
    good_names_are_kept_apart_and_listed_in_order,
    bad_names_are_refused_everywhere,
    bad_mime_types_are_refused,
    users_names_are_shared_by_their_sessions_alone,
    strange_ids_neither_leave_their_place_nor_meet,
    saves_at_once_never_share_a_version,
    delete_takes_all_versions_of_one_name,
    delete_session_leaves_what_is_the_users,
    delete_user_takes_everything_of_that_user,
    all_versions_of_a_user_count,
)


def _fresh() -> SessionKey:
    return SessionKey("app", uuid.uuid4().hex, "session")


def _sibling(key: SessionKey) -> SessionKey:
    """Another session of the same user."""
    return key._replace(id="sibling")


async def _refused(call: Awaitable[object], error: type[ArtifactError]) -> bool:
    try:
        await call
    except error:
        return True
    return False
