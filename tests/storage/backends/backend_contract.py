"""The contract of `MetadataStorageBackend`. A backend's test class inherits it.

Each test states what a caller relies on, and each error's test also what it leaves behind.
"""

import asyncio
from abc import abstractmethod

import pytest

from tests.storage.backends.reading_contract import ReadingContract
from tierledger.events.errors import (
    InvalidArgument,
    OutcomeUnknown,
    StorageUnavailable,
    StoreRefused,
)
from tierledger.storage.backend import (
    BATCH_BYTES_MAX,
    KEY_BYTES_MAX,
    VALUE_BYTES_MAX,
    AtomicConflict,
    ConflictReason,
    Create,
    CreateOutcome,
    Former,
    KeyExists,
    KeyMissing,
    MetadataStorageBackend,
    Put,
    Remove,
    Update,
    ValueMismatch,
)

Backend = MetadataStorageBackend

CREATED, EXISTS, PASSED = CreateOutcome.CREATED, CreateOutcome.EXISTS, CreateOutcome.PASSED

BAD_KEYS = ["", "\0", "a\0b", "\ud800", "k" * (KEY_BYTES_MAX + 1), "é" * KEY_BYTES_MAX]


async def everything(backend: Backend) -> dict[str, bytes]:
    return dict(await backend.get_like("", limit=10_000))


class BackendContract(ReadingContract):
    """Inherit it, and provide a fixture `backend`: an empty store, closed afterwards."""

    @abstractmethod
    async def reopen(self, backend: Backend, *, read_only: bool = False) -> Backend:
        """Close `backend`, and open its store anew."""

    async def test_what_was_created_is_there(self, backend: Backend) -> None:
        await backend.create("k", b"v")

        assert await backend.get("k") == b"v"
        assert await backend.get("other") is None

    async def test_what_is_there_cannot_be_created(self, backend: Backend) -> None:
        await backend.create("k", b"first")

        with pytest.raises(KeyExists, match="'k'"):
            await backend.create("k", b"second")

        assert await everything(backend) == {"k": b"first"}

    async def test_of_many_creators_exactly_one_wins(self, backend: Backend) -> None:
        outcomes = await asyncio.gather(
            *(backend.create_each([("k", b"%d" % one)]) for one in range(100))
        )

        winners = [one for one, outcome in enumerate(outcomes) if outcome == [CREATED]]
        assert len(winners) == 1
        assert await everything(backend) == {"k": b"%d" % winners[0]}

    async def test_an_update_replaces_what_is_there(self, backend: Backend) -> None:
        await backend.create("k", b"old")

        await backend.update("k", b"new")
        await backend.update("k", b"newer", expected=b"new")

        assert await backend.get("k") == b"newer"

    async def test_what_is_missing_cannot_be_updated(self, backend: Backend) -> None:
        with pytest.raises(KeyMissing, match="'k'"):
            await backend.update("k", b"v")
        with pytest.raises(KeyMissing):
            await backend.update("k", b"v", expected=b"")

        assert await everything(backend) == {}

    async def test_an_update_that_expects_another_value_changes_nothing(
        self, backend: Backend
    ) -> None:
        await backend.create("k", b"there")

        with pytest.raises(ValueMismatch, match="'k'"):
            await backend.update("k", b"new", expected=b"else")

        assert await everything(backend) == {"k": b"there"}

    async def test_an_empty_value_is_a_value(self, backend: Backend) -> None:
        await backend.create("k", b"")

        assert await backend.get("k") == b""
        with pytest.raises(KeyExists):
            await backend.create("k", b"v")
        await backend.update("k", b"v", expected=b"")
        with pytest.raises(ValueMismatch):
            await backend.update("k", b"w", expected=b"")

    async def test_a_value_may_be_long_and_hold_any_byte(self, backend: Backend) -> None:
        value = bytes(range(256)) * (BATCH_BYTES_MAX // 256 + 1)

        assert await backend.create_each([("k", value)]) == [CREATED]

        assert await backend.get("k") == value

    async def test_a_value_that_is_too_long_is_refused(self, backend: Backend) -> None:
        value = bytes(VALUE_BYTES_MAX + 1)

        with pytest.raises(InvalidArgument):
            await backend.create_each([("a", b""), ("k", value)])
        with pytest.raises(InvalidArgument):
            await backend.execute_atomically([Put("a", b""), Put("k", value)])

        assert await everything(backend) == {}

    @pytest.mark.parametrize("key", BAD_KEYS, ids=lambda key: ascii(key[:6]))
    async def test_a_key_that_not_every_backend_could_keep_is_refused(
        self, backend: Backend, key: str
    ) -> None:
        for call in (
            backend.create(key, b""),
            backend.update(key, b""),
            backend.create_each([("a", b""), (key, b"")]),
            backend.execute_atomically([Put("a", b""), Remove(key)]),
            backend.get_each(["a", key]),
        ):
            with pytest.raises(InvalidArgument):
                await call

        assert await everything(backend) == {}

    async def test_the_longest_key_is_kept(self, backend: Backend) -> None:
        key = "k" * KEY_BYTES_MAX

        await backend.create(key, b"v")

        assert await backend.get_like(key) == [(key, b"v")]

    async def test_what_is_like_the_prefix_is_removed_and_nothing_else(
        self, backend: Backend
    ) -> None:
        like = [f"a_/{one}" for one in range(2500)]
        others = ["a", "a_", "a_0", "aX/1", "b"]
        await backend.create_each([(key, b"") for key in [*like, *others]])

        assert await backend.remove_like("a_/") == len(like)

        assert list(await everything(backend)) == sorted(others)
        assert await backend.remove_like("a_/") == 0
        assert await backend.remove_like("") == len(others)

    async def test_operations_are_carried_out_in_order(self, backend: Backend) -> None:
        await backend.create_each([("a", b"1"), ("b", b"2")])

        await backend.execute_atomically(
            [
                Remove("a", expected=b"1"),
                Create("a", b"3"),
                Update("a", b"4", expected=b"3"),
                Update("b", b"5"),
                Put("b", b"6"),
                Put("c", b"7"),
                Remove("d"),
                Create("e", b"8"),
                Remove("e"),
            ]
        )

        assert await everything(backend) == {"a": b"4", "b": b"6", "c": b"7"}

    @pytest.mark.parametrize(
        ("operation", "why"),
        [
            (Create("k", b"x"), ConflictReason.EXISTS),
            (Create("new", b"x"), ConflictReason.EXISTS),
            (Update("none", b"x"), ConflictReason.MISSING),
            (Update("none", b"x", expected=b"v"), ConflictReason.MISSING),
            (Update("gone", b"x"), ConflictReason.MISSING),
            (Update("k", b"x", expected=b"w"), ConflictReason.MISMATCH),
            (Remove("none", expected=b"v"), ConflictReason.MISSING),
            (Remove("k", expected=b"w"), ConflictReason.MISMATCH),
        ],
    )
    async def test_one_conflict_undoes_all_operations(
        self, backend: Backend, operation: Create | Update | Remove, why: str
    ) -> None:
        before = {"k": b"v", "gone": b"g", "put": b"p"}
        await backend.create_each(list(before.items()))

        with pytest.raises(AtomicConflict) as caught:
            await backend.execute_atomically(
                [
                    Create("new", b"n"),
                    Remove("gone"),
                    Put("put", b"q"),
                    operation,
                    Put("late", b"l"),
                ]
            )

        assert (caught.value.key, caught.value.why) == (operation.key, why)
        assert await everything(backend) == before

    async def test_no_operations_are_no_change(self, backend: Backend) -> None:
        await backend.execute_atomically([])

        assert await backend.create_each([]) == []
        assert await everything(backend) == {}

    async def test_in_group_commit_a_taken_key_fails_no_other(self, backend: Backend) -> None:
        await backend.create("b", b"old")

        outcomes = await backend.create_each(
            [("a", b"1"), ("b", b"2"), ("c", b"3"), ("a", b"4")]
        )

        assert outcomes == [CREATED, EXISTS, CREATED, EXISTS]
        assert await everything(backend) == {"a": b"1", "b": b"old", "c": b"3"}

    async def test_a_slot_that_was_removed_cannot_be_won_again(self, backend: Backend) -> None:
        slots = [f"log/{number}" for number in range(4)]
        await backend.create_each([(key, b"old") for key in slots])
        boundary = Create("log/4", b"boundary")
        await backend.execute_atomically([boundary, *map(Remove, slots)])

        late = await backend.create_each([("log/0", b"z"), ("other/0", b""), ("log/3", b"z")])
        taken = await backend.create_each([("log/4", b"z")])
        next_one = await backend.create_each([("log/5", b"new")])

        assert (late, taken, next_one) == ([PASSED, CREATED, PASSED], [EXISTS], [CREATED])
        left = {"log/4": b"boundary", "log/5": b"new", "other/0": b""}
        assert await everything(backend) == left

    async def test_slots_of_one_folder_in_one_step_follow_each_other(
        self, backend: Backend
    ) -> None:
        await backend.create("log/2", b"there")
        items = [("log/4", b"4"), ("log/1", b"1"), ("log/2", b"2"), ("log/3", b"3")]

        outcomes = await backend.create_each(items)

        assert outcomes == [CREATED, PASSED, EXISTS, CREATED]

    async def test_a_folder_ends_behind_all_that_is_in_it_however_deep(
        self, backend: Backend
    ) -> None:
        assert await backend.create_each([("a/1", b"")]) == [CREATED]
        assert await backend.create_each([("a/b/1", b""), ("a/c", b"")]) == [CREATED, CREATED]
        await backend.execute_atomically([Put("a/d/e/1", b"")])

        late = await backend.create_each([("a/2", b""), ("a/d", b""), ("a/d/1", b"")])
        next_ones = await backend.create_each([("a/d/f", b""), ("a/e", b"")])

        assert late == [PASSED, PASSED, PASSED]
        assert next_ones == [CREATED, CREATED]

    async def test_a_slot_is_created_behind_what_its_writer_has_seen(
        self, backend: Backend
    ) -> None:
        first = {"log/1": Former("log/0", b"ze"), "a/1": Former("a/0")}
        await backend.create_each([("log/0", b"zero"), ("a/0", b"")])

        both = await backend.create_each([("log/1", b"one"), ("a/1", b"")], first)
        in_one_step = {"log/2": Former("log/1", b"one"), "log/3": Former("log/2", b"two")}
        next_ones = await backend.create_each([("log/3", b""), ("log/2", b"two")], in_one_step)

        assert (both, next_ones) == ([CREATED, CREATED], [CREATED, CREATED])

    async def test_a_writer_that_was_overtaken_is_told_that_and_not_of_its_former(
        self, backend: Backend
    ) -> None:
        await backend.create_each([("log/4", b"boundary"), ("log/5", b"other's")])
        items = [("log/3", b""), ("log/5", b""), ("log/6", b"")]
        formers = {"log/3": Former("log/2"), "log/5": Former("log/4", b"mine")}

        outcomes = await backend.create_each(items, formers)

        assert outcomes == [PASSED, EXISTS, CREATED]

    @pytest.mark.parametrize("found", [None, b"", b"another leader's", b"no"])
    async def test_a_store_that_lacks_what_its_writer_has_seen_takes_no_change_any_more(
        self, backend: Backend, found: bytes | None
    ) -> None:
        there = {"log/0": b"zero"} | ({} if found is None else {"log/1": found})
        await backend.create_each(list(there.items()))
        items = [("other/0", b""), ("log/2", b"two"), ("log/3", b"")]
        formers = {"log/2": Former("log/1", b"one"), "log/3": Former("log/2")}

        with pytest.raises(StoreRefused, match=r"older .* 'log/1' is not there"):
            await backend.create_each(items, formers)

        for change in (
            lambda: backend.create_each([("other/0", b"")]),
            lambda: backend.execute_atomically([Put("other/0", b"")]),
            lambda: backend.remove_like("log/"),
        ):
            with pytest.raises(StoreRefused, match="older"):
                await change()
        assert await everything(backend) == there

    async def test_a_store_that_was_refused_is_taken_when_it_is_opened_anew(
        self, backend: Backend
    ) -> None:
        with pytest.raises(StoreRefused):
            await backend.create_each([("log/1", b"")], {"log/1": Former("log/0")})

        reopened = await self.reopen(backend)

        assert await reopened.create_each([("log/0", b"")]) == [CREATED]
        await reopened.close()

    async def test_of_a_removal_and_late_creations_at_the_same_time_one_log_is_left(
        self, backend: Backend
    ) -> None:
        slots = [f"{log}/{slot}" for log in range(20) for slot in range(3)]
        await backend.create_each([(key, b"") for key in slots])

        async def forget(log: int) -> bool:
            removals = [Remove(f"{log}/{slot}") for slot in range(3)]
            try:
                await backend.execute_atomically([Create(f"{log}/3", b"boundary"), *removals])
            except AtomicConflict:
                return False
            return True

        for log in range(20):
            late = backend.create_each([(f"{log}/2", b"late"), (f"{log}/3", b"late")])
            is_forgotten, (second, third) = await asyncio.gather(forget(log), late)

            assert second in {EXISTS, PASSED}
            assert third is (EXISTS if is_forgotten else CREATED)
            left = [key for key, _ in await backend.get_like(f"{log}/")]
            assert left == [f"{log}/{slot}" for slot in ([3] if is_forgotten else range(4))]

    async def test_a_group_commit_is_bounded(self, backend: Backend) -> None:
        half = bytes(BATCH_BYTES_MAX // 2)

        assert await backend.create_each([("a", half), ("b", half)]) == [CREATED, CREATED]
        with pytest.raises(InvalidArgument):
            await backend.create_each([("c", half), ("d", half), ("e", b"1")])

        assert await backend.get_each(["c", "d", "e"]) == [None, None, None]

    async def test_concurrent_updates_that_expect_the_same_value_do_not_overwrite_each_other(
        self, backend: Backend
    ) -> None:
        await backend.create("k", b"0")

        async def increment() -> None:
            while True:
                present = await backend.get("k")
                assert present is not None
                try:
                    return await backend.update(
                        "k", b"%d" % (int(present) + 1), expected=present
                    )
                except ValueMismatch:
                    continue

        await asyncio.gather(*(increment() for _ in range(20)))

        assert await backend.get("k") == b"20"

    async def test_a_read_sees_all_of_an_atomic_step_or_nothing(self, backend: Backend) -> None:
        keys = [f"k{one}" for one in range(10)]
        await backend.execute_atomically([Put(key, b"0") for key in keys])

        async def write() -> None:
            for one in range(1, 50):
                await backend.execute_atomically([Put(key, b"%d" % one) for key in keys])

        async def read() -> None:
            for _ in range(50):
                assert len(set(await backend.get_each(keys))) == 1
                assert len({value for _, value in await backend.get_like("k")}) == 1

        await asyncio.gather(write(), read())

    async def test_what_was_stored_is_there_after_reopening(self, backend: Backend) -> None:
        await backend.create("a", b"1")
        await backend.execute_atomically([Put("b", b"2")])
        await backend.create_each([("c", b"3"), ("d", b"4")])
        await backend.remove_like("d")

        again = await self.reopen(backend)

        assert await everything(again) == {"a": b"1", "b": b"2", "c": b"3"}
        await again.close()

    async def test_a_reader_reads_and_writes_nothing(self, backend: Backend) -> None:
        await backend.create("k", b"v")
        reader = await self.reopen(backend, read_only=True)

        for call in (
            reader.create("a", b""),
            reader.update("k", b""),
            reader.create_each([("a", b"")]),
            reader.execute_atomically([Put("a", b"")]),
            reader.remove_like("k"),
        ):
            with pytest.raises(StoreRefused):
                await call

        assert await everything(reader) == {"k": b"v"}
        await reader.close()

    async def test_after_closing_every_call_is_refused(self, backend: Backend) -> None:
        await backend.close()
        await backend.close()

        for call in (
            backend.get("k"),
            backend.get_like(""),
            backend.create("k", b""),
            backend.create_each([("k", b"")]),
            backend.remove_like(""),
        ):
            with pytest.raises(StorageUnavailable):
                await call

    async def test_closing_waits_for_what_is_in_flight(self, backend: Backend) -> None:
        writes = [asyncio.create_task(backend.create(f"k{one}", b"")) for one in range(20)]
        # One turn of the loop: each task has handed over its work.
        await asyncio.sleep(0)

        again = await self.reopen(backend)

        await asyncio.gather(*writes)
        assert len(await everything(again)) == 20
        await again.close()

    async def test_a_cancelled_caller_disturbs_no_other(self, backend: Backend) -> None:
        writes = [asyncio.create_task(backend.create(f"k{one}", b"")) for one in range(50)]
        await asyncio.sleep(0)

        for write in writes[::2]:
            write.cancel()
        await asyncio.gather(*writes, return_exceptions=True)
        await backend.create("last", b"")

        kept = await everything(backend)
        assert {"last", *(f"k{one}" for one in range(1, 50, 2))} <= set(kept)


class DatabaseContract(BackendContract):
    """The same for a backend that removes many keys step by step."""

    keys_per_removal: int

    async def test_a_removal_that_is_cut_short_says_so_and_can_be_repeated(
        self, backend: Backend
    ) -> None:
        keys = [f"k{one:05d}" for one in range(5 * self.keys_per_removal)]
        await backend.create_each([(key, b"") for key in keys])
        removal = asyncio.create_task(backend.remove_like("k"))
        # One turn of the loop: its first step is handed over.
        await asyncio.sleep(0)

        again = await self.reopen(backend)

        with pytest.raises(OutcomeUnknown, match="keys are removed"):
            await removal
        left = list(await everything(again))
        assert 0 < len(left) < len(keys)
        assert left == keys[-len(left) :]
        assert await again.remove_like("k") == len(left)
        await again.close()
