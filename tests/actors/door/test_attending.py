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


async def test_how_far_a_move_is_comes_through_the_door_into_the_status(
    world: LocalWorld,
) -> None:
    told = pb.TellMove(to="kafka", phase="comparing", comparisons=2, differences=["one"])
    told.compared_ms_ago = 70
    calls = [
        pb.Call(id=1, deadline_ms=10_000, tell_move=told),
        pb.Call(id=2, deadline_ms=10_000, tell_move=pb.TellMove(differences=["x"] * 21)),
    ]
    before = (await world.service.coordinator.status())["move"]
    async with greeted(await door_of(world)) as client:
        taken, refused = await client.ask(*calls)
    move = (await world.service.coordinator.status())["move"]

    assert before is None
    assert taken.WhichOneof("result") == "move_told"
    assert refused.failure.kind == pb.INVALID_ARGUMENT
    assert (move["to"], move["phase"], move["comparisons"]) == ("kafka", "comparing", 2)
    assert list(move["differences"]) == ["one"]
    assert 70 <= move["compared_ms_ago"] == 70 + move["heard_ms_ago"]
