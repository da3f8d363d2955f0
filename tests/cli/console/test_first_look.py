"""What the tier holds of a partition, from its checkpoint alone."""

from tests.models.storage.stored_partitions import StoredPartition, added, finished, updated
from tierledger.cli.commands.console.first_look import EVENTS_MIN, checkpointed, first_look
from tierledger.storage.backends.memory import MemoryBackend


async def test_each_epoch_has_its_segments_by_offset_and_state() -> None:
    partition = await StoredPartition.led(MemoryBackend())
    await partition.append([*finished(0), *finished(1), *finished(2, epoch=1)])
    await partition.append([added(3, 30, 39, epoch=1), updated(0, 2)])
    await partition.checkpoint()

    state = await checkpointed(partition.reader(), partition.state.next_position - 1)
    assert state is not None
    look = first_look(state)

    assert look is not None
    assert [(row.title, row.note) for row in look.rows] == [
        ("epoch 0", "2 segments"),
        ("epoch 1", "2 segments"),
    ]
    tips = {box.tip: (box.look, box.y > 10) for row in look.rows for box in row.drawing.boxes}
    assert tips == {
        "1 segment, deleting: offsets 0 to 9": ("leaving", True),
        "1 segment, finished: offsets 10 to 19": ("good", False),
        "1 segment, finished: offsets 20 to 29": ("good", False),
        "1 segment, copying: offsets 30 to 39": ("open", True),
    }
    assert look.words == ["copying", "finished", "deleting"]
    assert (look.offsets[0], look.offsets[-1]) == (0, 39)


async def test_many_segments_are_drawn_together() -> None:
    partition = await StoredPartition.led(MemoryBackend())
    for first in range(0, 3000, 100):
        await partition.append([body for at in range(100) for body in finished(first + at)])

    look = first_look(partition.state)

    assert look is not None
    (row,) = look.rows
    assert row.note == "3,000 segments"
    assert len(row.drawing.boxes) == 600
    assert row.drawing.boxes[0].tip == "5 segments, finished: offsets 0 to 49"


async def test_nothing_is_looked_at_that_would_take_long() -> None:
    partition = await StoredPartition.led(MemoryBackend())
    await partition.fill([0])

    without = await checkpointed(partition.reader(), 2)
    await partition.checkpoint()
    far = await checkpointed(partition.reader(), partition.state.next_position + EVENTS_MIN)

    assert without is None
    assert far is None
    assert first_look((await StoredPartition.led(MemoryBackend())).state) is None
