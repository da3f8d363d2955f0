"""The tables are Kafka's, cell by cell, and the diagrams show the same."""

import pytest

from tierledger.events.lifecycle import (
    PARTITION_DELETE_TRANSITIONS,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
    diagram,
    is_valid_delete_transition,
    is_valid_segment_transition,
    is_valid_transition,
)

SEGMENT_TABLE = """
    source  CS  CF  DS  DF
    None    yes no  no  no
    CS      yes yes yes no
    CF      no  yes yes no
    DS      no  no  yes yes
    DF      no  no  no  yes
"""

DELETE_TABLE = """
    source  M   S   F
    None    yes no  no
    M       yes yes no
    S       no  yes yes
    F       no  no  yes
"""

SEGMENT_STATES = {
    "CS": RemoteLogSegmentState.COPY_SEGMENT_STARTED,
    "CF": RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
    "DS": RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
    "DF": RemoteLogSegmentState.DELETE_SEGMENT_FINISHED,
}

DELETE_STATES = {
    "M": RemotePartitionDeleteState.DELETE_PARTITION_MARKED,
    "S": RemotePartitionDeleteState.DELETE_PARTITION_STARTED,
    "F": RemotePartitionDeleteState.DELETE_PARTITION_FINISHED,
}


def cells(table: str) -> list[tuple[str, str, bool]]:
    (_, *targets), *rows = (line.split() for line in table.strip().splitlines())
    return [
        (source, target, answer == "yes")
        for source, *answers in rows
        for target, answer in zip(targets, answers, strict=True)
    ]


@pytest.mark.parametrize(("source", "target", "legal"), cells(SEGMENT_TABLE))
def test_a_segment_moves_as_kafka_lets_it(source: str, target: str, legal: bool) -> None:
    before, after = SEGMENT_STATES.get(source), SEGMENT_STATES[target]

    assert is_valid_segment_transition(before, after) is legal
    assert is_valid_transition(before, after) is legal


@pytest.mark.parametrize(("source", "target", "legal"), cells(DELETE_TABLE))
def test_a_partitions_deletion_moves_as_kafka_lets_it(
    source: str, target: str, legal: bool
) -> None:
    before, after = DELETE_STATES.get(source), DELETE_STATES[target]

    assert is_valid_delete_transition(before, after) is legal
    assert is_valid_transition(before, after) is legal


def test_the_states_have_kafkas_numbers() -> None:
    assert [SEGMENT_STATES[name].value for name in ("CS", "CF", "DS", "DF")] == [0, 1, 2, 3]
    assert [DELETE_STATES[name].value for name in ("M", "S", "F")] == [0, 1, 2]
    assert len(RemoteLogSegmentState) == 4
    assert len(RemotePartitionDeleteState) == 3


def test_the_segments_diagram_has_an_arrow_for_each_transition() -> None:
    lines = diagram().splitlines()

    assert lines[0] == "stateDiagram-v2"
    assert lines[1].strip() == "[*] --> COPY_SEGMENT_STARTED"
    assert lines[-1].strip() == "DELETE_SEGMENT_FINISHED --> [*]"
    legal = [
        f"{SEGMENT_STATES[source].name} --> {SEGMENT_STATES[target].name}"
        for source, target, is_legal in cells(SEGMENT_TABLE)
        if is_legal and source != "None"
    ]
    assert [line.strip() for line in lines[2:-1]] == legal


def test_the_partitions_diagram_is_drawn_from_its_table() -> None:
    text = diagram(PARTITION_DELETE_TRANSITIONS)

    assert text == (
        "stateDiagram-v2\n"
        "    [*] --> DELETE_PARTITION_MARKED\n"
        "    DELETE_PARTITION_MARKED --> DELETE_PARTITION_MARKED\n"
        "    DELETE_PARTITION_MARKED --> DELETE_PARTITION_STARTED\n"
        "    DELETE_PARTITION_STARTED --> DELETE_PARTITION_STARTED\n"
        "    DELETE_PARTITION_STARTED --> DELETE_PARTITION_FINISHED\n"
        "    DELETE_PARTITION_FINISHED --> DELETE_PARTITION_FINISHED\n"
        "    DELETE_PARTITION_FINISHED --> [*]\n"
    )
