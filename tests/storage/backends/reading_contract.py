"""The part of the backends' contract that is about reading: order, prefixes and pages."""

import pytest

from tierledger.events.errors import InvalidArgument
from tierledger.storage.backend import MetadataStorageBackend

Backend = MetadataStorageBackend

ODD_KEYS = [
    "%",
    "_",
    "a%b",
    "a_b",
    "aXb",
    "\\",
    "'",
    '"',
    "é",
    "e\u0301",
    "日本",
    "\U0001f4be",
    "\ue000",
]


class ReadingContract:
    """The contract of `get_each` and `get_like`, a part of `BackendContract`."""

    async def test_each_key_is_answered_in_its_place(self, backend: Backend) -> None:
        await backend.create_each([("a", b"1"), ("b", b"2")])

        assert await backend.get_each(["b", "c", "a", "b"]) == [b"2", None, b"1", b"2"]
        assert await backend.get_each([]) == []

    async def test_keys_come_in_the_order_of_their_bytes(self, backend: Backend) -> None:
        await backend.create_each([(key, key.encode()) for key in ODD_KEYS])

        found = [key for key, _ in await backend.get_like("")]

        assert found == sorted(ODD_KEYS, key=str.encode)

    @pytest.mark.parametrize("prefix", [*ODD_KEYS, "a", "A", "zz", "\U0010ffff", "\ud7ff"])
    async def test_a_prefix_is_taken_literally(self, backend: Backend, prefix: str) -> None:
        keys = [*ODD_KEYS, *(f"{key}/x" for key in ODD_KEYS), "\U0010ffff", "\U0010ffffx"]
        await backend.create_each([(key, b"") for key in keys])

        found = [key for key, _ in await backend.get_like(prefix)]

        assert found == sorted((key for key in keys if key.startswith(prefix)), key=str.encode)

    async def test_pages_follow_one_another_without_gap_or_overlap(
        self, backend: Backend
    ) -> None:
        keys = [f"p/{one:04d}" for one in range(250)]
        others = ["p", "p.", "p/", "p0", "q"]
        await backend.create_each([(key, key.encode()) for key in [*keys, *others]])

        seen: list[tuple[str, bytes]] = []
        while page := await backend.get_like(
            "p/", after=seen[-1][0] if seen else None, limit=100
        ):
            seen += page

        assert seen == [(key, key.encode()) for key in ["p/", *keys]]

    async def test_a_page_starts_strictly_after_a_key_that_need_not_exist(
        self, backend: Backend
    ) -> None:
        await backend.create_each([(key, b"") for key in ("p/a", "p/b", "p/b0", "q")])

        async def keys_after(after: str) -> list[str]:
            return [key for key, _ in await backend.get_like("p/", after=after)]

        assert await keys_after("p/a") == ["p/b", "p/b0"]
        assert await keys_after("p/aa") == ["p/b", "p/b0"]
        assert await keys_after("p/b") == ["p/b0"]
        assert await keys_after("a") == ["p/a", "p/b", "p/b0"]
        assert await keys_after("") == ["p/a", "p/b", "p/b0"]
        assert await keys_after("p/z") == []
        assert await keys_after("z") == []

    async def test_the_first_key_of_each_folder_is_found(self, backend: Backend) -> None:
        keys = [
            "p",
            "p/a",
            "p/b/1/x",
            "p/b/1/y",
            "p/b/2/x",
            "p/b0/1",
            "p/b0/1/x",
            "p/c/1/x",
            "q",
        ]
        await backend.create_each([(key, key.encode()) for key in keys])

        async def firsts(levels: int, after: str | None = None, limit: int = 9) -> list[str]:
            found = await backend.get_firsts("p/", levels, after=after, limit=limit)
            assert found == [(key, key.encode()) for key, _ in found]
            return [key for key, _ in found]

        assert await firsts(1) == ["p/a", "p/b/1/x", "p/b0/1", "p/c/1/x"]
        assert await firsts(2) == [
            *("p/a", "p/b/1/x", "p/b/2/x", "p/b0/1", "p/b0/1/x", "p/c/1/x")
        ]
        assert await firsts(2, after="p/b/1/x", limit=2) == ["p/b/1/y", "p/b/2/x"]
        assert await firsts(2, after="p/c/1/x") == []

    async def test_the_last_key_of_each_prefix_is_found(self, backend: Backend) -> None:
        await backend.create_each([(key, b"") for key in ("p/a", "p/b", "p0", "q/\U0010ffff")])

        found = await backend.last_keys(["p/", "q/", "r", "p/", "p/b", ""])

        assert found == ["p/b", "q/\U0010ffff", None, "p/b", "p/b", "q/\U0010ffff"]
        assert await backend.last_keys([]) == []
        assert await backend.last_keys_seen(["p/", ""]) == [found[0], found[-1]]

    async def test_a_page_without_room_is_refused(self, backend: Backend) -> None:
        for limit in (0, -1):
            with pytest.raises(InvalidArgument):
                await backend.get_like("", limit=limit)
