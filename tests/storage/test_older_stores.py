"""A store that an older release wrote: its logs fold, and its checkpoints count."""

import json
from pathlib import Path

from tests.models.storage.stored_partitions import CLUSTER, SERDE, TIME_MS, TIP, StoredPartition
from tierledger.events import commands as cmd
from tierledger.events.partition.state import DisputeRun
from tierledger.storage.backend import Put
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.keys import DefaultMetadataKeyFactory
from tierledger.storage.partition.checkpoint import CheckpointStore
from tierledger.storage.partition.reader import PartitionReader

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "store-v1.json").read_text())
"""One partition, written by the first version: two disputed sessions, one of them after the
checkpoint; a deleted segment, two that are there."""

KEYS = DefaultMetadataKeyFactory(CLUSTER)


async def old_store() -> MemoryBackend:
    backend = MemoryBackend()
    values = GOLDEN["values"].items()
    await backend.execute_atomically([Put(key, bytes.fromhex(value)) for key, value in values])
    return backend


async def test_log_and_checkpoint_of_the_first_version_come_to_the_digest_it_had() -> None:
    backend = await old_store()
    folded, _ = await PartitionReader(backend, KEYS, SERDE, CLUSTER, TIP).state()
    for key, _ in await backend.get_like(KEYS.state(TIP), limit=100):
        await backend.remove_like(key)
    replayed, _ = await PartitionReader(backend, KEYS, SERDE, CLUSTER, TIP).state()

    assert folded.digest().hex() == replayed.digest().hex() == GOLDEN["digest_at_the_end"]
    assert folded.disputes == GOLDEN["disputes"] == 2
    assert folded.dispute_run is None


async def test_a_checkpoint_of_the_first_version_is_good_and_is_renewed_as_todays() -> None:
    backend = await old_store()
    checkpoints = CheckpointStore(backend, KEYS, SERDE, TIP)
    found = await checkpoints.read_partition()
    assert found is not None
    stored, value = found
    assert stored[0] == 1

    state = await checkpoints.load(stored, value, tracks_changes=True)
    plan = checkpoints.plan(state, value.next_batch, stored)
    await backend.execute_atomically(plan.operations)

    assert plan.partition_value[0] == 2
    again = await checkpoints.load(
        plan.partition_value, checkpoints.parse_partition(plan.partition_value)
    )
    assert again.digest() == state.digest() == value.digest
    assert again.disputes == 1


async def test_disputes_in_a_row_survive_in_todays_checkpoint() -> None:
    partition = StoredPartition(MemoryBackend())
    for number, epoch in ((1, 7), (2, None), (3, 7)):
        claim = cmd.Claim(number % 2, 1, number)
        command = cmd.OpenSession(claim, number, epoch, "orders", None, cmd.NOBODY_KNOWS)
        await partition.accept(command, TIME_MS + 10_000 * number)
    await partition.checkpoint()
    assert partition.partition_value is not None

    checkpoints = CheckpointStore(partition.backend, KEYS, SERDE, TIP)
    value = checkpoints.parse_partition(partition.partition_value)
    loaded = await checkpoints.load(partition.partition_value, value)

    assert loaded.dispute_run == DisputeRun(2, 3, TIME_MS + 30_000)
    loaded.dispute_run = loaded.dispute_run._replace(in_a_row=1)
    assert loaded.digest() != partition.state.digest()
