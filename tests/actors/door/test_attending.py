"""A broker's plugin attends: the host answers by whose manager a broker of its mode reads."""

from tests.actors.door.clients import door_of, greeted
from tests.models.actors.local_world import LocalWorld
from tierledger.actors.door import door_pb2 as pb


def attending(number: int, mode: pb.PluginMode, equal: int) -> pb.Call:
    shadow = pb.ShadowReport(equal=equal) if equal else None
    attend = pb.Attend(broker_id=number, mode=mode, shadow=shadow)
    return pb.Call(id=number, deadline_ms=10_000, attend=attend)


async def test_the_owner_and_the_mode_say_who_reads(world: LocalWorld) -> None:
    async with greeted(await door_of(world)) as client:
        answers = await client.ask(
            attending(1, pb.MODE_SHADOW, 5),
            attending(2, pb.MODE_HANDOVER, 0),
            attending(3, pb.MODE_TIERLEDGER, 0),
        )

    owners = [one.ownership for one in answers]
    assert [(one.owner, one.reads) for one in owners] == [
        ("nobody", "kafka"),
        ("nobody", ""),
        ("nobody", "tierledger"),
    ]
    status = await world.service.coordinator.status()
    assert [(one["broker_id"], one["equal"]) for one in status["shadows"]] == [(1, 5)]
