"""The protocol as files: the text and the bytes of each message, for programs in any language.

A vector is two files: `NAME.txtpb`, protobuf's text format, with the message's type in its
first line, and `NAME.hex`. What is released never changes; new fields get new vectors.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import text_format
from google.protobuf.message import Message

from tests.actors.door.samples import OBJECTS, messages
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.limits import FEED_METHOD, METHOD, SERVICE

VECTORS = Path(__file__).parent / "vectors"
DOOR = Path(__file__).parents[3] / "actors" / "door"

MESSAGES = messages()


def written(message: Message) -> tuple[str, str]:
    """The two files of a message."""
    text = f"# {message.DESCRIPTOR.full_name}\n{text_format.MessageToString(message)}"
    return text, message.SerializeToString(deterministic=True).hex() + "\n"


def read(name: str) -> tuple[str, str]:
    return (VECTORS / f"{name}.txtpb").read_text(), (VECTORS / f"{name}.hex").read_text()


def test_every_message_has_a_vector_and_every_vector_a_message() -> None:
    nested = {"tierledger.door.v1.StatusQuestion.Of"}
    all_messages = {one.full_name for one in pb.DESCRIPTOR.message_types_by_name.values()}

    assert {one.DESCRIPTOR.full_name for one in MESSAGES.values()} | nested >= all_messages
    assert {path.stem for path in VECTORS.iterdir()} == set(MESSAGES)


def test_every_call_change_and_answer_has_a_vector() -> None:
    calls = [one for one in MESSAGES.values() if isinstance(one, pb.Call)]
    answers = [one for one in MESSAGES.values() if isinstance(one, pb.Answer)]

    assert {one.WhichOneof("ask") for one in calls} == fields_of(pb.Call, "ask")
    assert {one.WhichOneof("result") for one in answers} == fields_of(pb.Answer, "result")
    changes = {one.write.WhichOneof("change") for one in calls if one.HasField("write")}
    assert changes == fields_of(pb.Write, "change")


def test_whatever_a_subscription_is_given_has_a_vector() -> None:
    given = {one.WhichOneof("what") for one in MESSAGES.values() if isinstance(one, pb.Fed)}

    assert given == fields_of(pb.Fed, "what")


def fields_of(kind: type[Message], oneof: str) -> set[str]:
    return {field.name for field in kind.DESCRIPTOR.oneofs_by_name[oneof].fields}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_is_written_as_its_vector_says(name: str) -> None:
    assert written(MESSAGES[name]) == read(name)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_vector_is_read_as_the_message(name: str) -> None:
    text, hexadecimal = read(name)
    kind = type(MESSAGES[name])

    assert text_format.Parse(text, kind()) == MESSAGES[name]
    assert kind.FromString(bytes.fromhex(hexadecimal)) == MESSAGES[name]


@pytest.mark.parametrize("name", OBJECTS)
def test_what_the_domain_says_is_read_back_equal(name: str) -> None:
    one = OBJECTS[name]
    kind = type(MESSAGES[name])

    taken = one.taken(kind.FromString(bytes.fromhex(read(name)[1])))

    assert taken == one.value
    assert type(taken) is type(one.value)


def test_the_service_is_the_one_that_is_served() -> None:
    service = pb.DESCRIPTOR.services_by_name["Door"]

    assert (service.full_name, [one.name for one in service.methods]) == (
        SERVICE,
        [METHOD, FEED_METHOD],
    )


def test_the_generated_code_is_what_the_description_gives(tmp_path: Path) -> None:
    inside = "tierledger/actors/door"
    subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={inside}={DOOR}"),
            *(f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", f"{inside}/door.proto"),
        ],
        check=True,
    )

    for name in ("door_pb2.py", "door_pb2.pyi"):
        made = (tmp_path / inside / name).read_text()
        assert made == (DOOR / name).read_text(), "generate it again, as docs/door.md says"
