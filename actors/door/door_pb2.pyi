from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Fate(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FATE_UNSPECIFIED: _ClassVar[Fate]
    RETRYABLE: _ClassVar[Fate]
    UNKNOWN: _ClassVar[Fate]
    REJECTED: _ClassVar[Fate]
    FENCED_OFF: _ClassVar[Fate]
    DAMAGED: _ClassVar[Fate]

class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KIND_UNSPECIFIED: _ClassVar[Kind]
    NOT_READY: _ClassVar[Kind]
    NOT_LEADER: _ClassVar[Kind]
    OVERLOADED: _ClassVar[Kind]
    STORAGE_UNAVAILABLE: _ClassVar[Kind]
    OUTCOME_UNKNOWN: _ClassVar[Kind]
    INVALID_STATE_TRANSITION: _ClassVar[Kind]
    REMOTE_RESOURCE_NOT_FOUND: _ClassVar[Kind]
    PARTITION_DELETED: _ClassVar[Kind]
    CUSTOM_METADATA_SIZE_LIMIT_EXCEEDED: _ClassVar[Kind]
    INVALID_ARGUMENT: _ClassVar[Kind]
    FENCED: _ClassVar[Kind]
    CORRUPT_LOG: _ClassVar[Kind]
    CORRUPT_CHECKPOINT: _ClassVar[Kind]
    QUARANTINED: _ClassVar[Kind]
    METADATA_PARSE_ERROR: _ClassVar[Kind]
    STORE_REFUSED: _ClassVar[Kind]
    FORMAT_TOO_NEW: _ClassVar[Kind]
    NOT_AUTHORIZED: _ClassVar[Kind]

class SegmentState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SEGMENT_STATE_UNSPECIFIED: _ClassVar[SegmentState]
    COPY_SEGMENT_STARTED: _ClassVar[SegmentState]
    COPY_SEGMENT_FINISHED: _ClassVar[SegmentState]
    DELETE_SEGMENT_STARTED: _ClassVar[SegmentState]
    DELETE_SEGMENT_FINISHED: _ClassVar[SegmentState]

class DeletionCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELETION_CAUSE_UNSPECIFIED: _ClassVar[DeletionCause]
    RETENTION: _ClassVar[DeletionCause]
    TOPIC_DELETION: _ClassVar[DeletionCause]

class DeletionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELETION_STATE_UNSPECIFIED: _ClassVar[DeletionState]
    DELETE_PARTITION_MARKED: _ClassVar[DeletionState]
    DELETE_PARTITION_STARTED: _ClassVar[DeletionState]
    DELETE_PARTITION_FINISHED: _ClassVar[DeletionState]

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    LEADER: _ClassVar[Role]
    FOLLOWER: _ClassVar[Role]
    STORAGE: _ClassVar[Role]

class QuestionKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUESTION_KIND_UNSPECIFIED: _ClassVar[QuestionKind]
    LOOKUP: _ClassVar[QuestionKind]
    HIGHEST_OFFSET: _ClassVar[QuestionKind]
    SIZE: _ClassVar[QuestionKind]
    SUMMARY: _ClassVar[QuestionKind]
    NEXT_TXN_SEGMENT: _ClassVar[QuestionKind]
    LIST: _ClassVar[QuestionKind]
    LIST_EPOCH: _ClassVar[QuestionKind]

class PluginMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLUGIN_MODE_UNSPECIFIED: _ClassVar[PluginMode]
    MODE_SHADOW: _ClassVar[PluginMode]
    MODE_HANDOVER: _ClassVar[PluginMode]
    MODE_TIERLEDGER: _ClassVar[PluginMode]
FATE_UNSPECIFIED: Fate
RETRYABLE: Fate
UNKNOWN: Fate
REJECTED: Fate
FENCED_OFF: Fate
DAMAGED: Fate
KIND_UNSPECIFIED: Kind
NOT_READY: Kind
NOT_LEADER: Kind
OVERLOADED: Kind
STORAGE_UNAVAILABLE: Kind
OUTCOME_UNKNOWN: Kind
INVALID_STATE_TRANSITION: Kind
REMOTE_RESOURCE_NOT_FOUND: Kind
PARTITION_DELETED: Kind
CUSTOM_METADATA_SIZE_LIMIT_EXCEEDED: Kind
INVALID_ARGUMENT: Kind
FENCED: Kind
CORRUPT_LOG: Kind
CORRUPT_CHECKPOINT: Kind
QUARANTINED: Kind
METADATA_PARSE_ERROR: Kind
STORE_REFUSED: Kind
FORMAT_TOO_NEW: Kind
NOT_AUTHORIZED: Kind
SEGMENT_STATE_UNSPECIFIED: SegmentState
COPY_SEGMENT_STARTED: SegmentState
COPY_SEGMENT_FINISHED: SegmentState
DELETE_SEGMENT_STARTED: SegmentState
DELETE_SEGMENT_FINISHED: SegmentState
DELETION_CAUSE_UNSPECIFIED: DeletionCause
RETENTION: DeletionCause
TOPIC_DELETION: DeletionCause
DELETION_STATE_UNSPECIFIED: DeletionState
DELETE_PARTITION_MARKED: DeletionState
DELETE_PARTITION_STARTED: DeletionState
DELETE_PARTITION_FINISHED: DeletionState
ROLE_UNSPECIFIED: Role
LEADER: Role
FOLLOWER: Role
STORAGE: Role
QUESTION_KIND_UNSPECIFIED: QuestionKind
LOOKUP: QuestionKind
HIGHEST_OFFSET: QuestionKind
SIZE: QuestionKind
SUMMARY: QuestionKind
NEXT_TXN_SEGMENT: QuestionKind
LIST: QuestionKind
LIST_EPOCH: QuestionKind
PLUGIN_MODE_UNSPECIFIED: PluginMode
MODE_SHADOW: PluginMode
MODE_HANDOVER: PluginMode
MODE_TIERLEDGER: PluginMode

class ClientFrame(_message.Message):
    __slots__ = ("greeting", "calls", "cancelled", "subscribed", "expected", "unsubscribed")
    GREETING_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBED_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    UNSUBSCRIBED_FIELD_NUMBER: _ClassVar[int]
    greeting: ClientGreeting
    calls: _containers.RepeatedCompositeFieldContainer[Call]
    cancelled: _containers.RepeatedScalarFieldContainer[int]
    subscribed: _containers.RepeatedCompositeFieldContainer[Subscribe]
    expected: _containers.RepeatedCompositeFieldContainer[Expect]
    unsubscribed: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, greeting: _Optional[_Union[ClientGreeting, _Mapping]] = ..., calls: _Optional[_Iterable[_Union[Call, _Mapping]]] = ..., cancelled: _Optional[_Iterable[int]] = ..., subscribed: _Optional[_Iterable[_Union[Subscribe, _Mapping]]] = ..., expected: _Optional[_Iterable[_Union[Expect, _Mapping]]] = ..., unsubscribed: _Optional[_Iterable[int]] = ...) -> None: ...

class HostFrame(_message.Message):
    __slots__ = ("greeting", "answers", "farewell", "fed")
    GREETING_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    FAREWELL_FIELD_NUMBER: _ClassVar[int]
    FED_FIELD_NUMBER: _ClassVar[int]
    greeting: HostGreeting
    answers: _containers.RepeatedCompositeFieldContainer[Answer]
    farewell: Failure
    fed: _containers.RepeatedCompositeFieldContainer[Fed]
    def __init__(self, greeting: _Optional[_Union[HostGreeting, _Mapping]] = ..., answers: _Optional[_Iterable[_Union[Answer, _Mapping]]] = ..., farewell: _Optional[_Union[Failure, _Mapping]] = ..., fed: _Optional[_Iterable[_Union[Fed, _Mapping]]] = ...) -> None: ...

class ClientGreeting(_message.Message):
    __slots__ = ("version_min", "version_max", "cluster_id", "broker_id", "software")
    VERSION_MIN_FIELD_NUMBER: _ClassVar[int]
    VERSION_MAX_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    version_min: int
    version_max: int
    cluster_id: str
    broker_id: int
    software: str
    def __init__(self, version_min: _Optional[int] = ..., version_max: _Optional[int] = ..., cluster_id: _Optional[str] = ..., broker_id: _Optional[int] = ..., software: _Optional[str] = ...) -> None: ...

class HostGreeting(_message.Message):
    __slots__ = ("version", "cluster_id", "host", "software", "frame_bytes_max", "calls_max")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    FRAME_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    CALLS_MAX_FIELD_NUMBER: _ClassVar[int]
    version: int
    cluster_id: str
    host: str
    software: str
    frame_bytes_max: int
    calls_max: int
    def __init__(self, version: _Optional[int] = ..., cluster_id: _Optional[str] = ..., host: _Optional[str] = ..., software: _Optional[str] = ..., frame_bytes_max: _Optional[int] = ..., calls_max: _Optional[int] = ...) -> None: ...

class Call(_message.Message):
    __slots__ = ("id", "deadline_ms", "host", "request_id", "traceparent", "write", "question", "ready", "next_page", "register", "announce", "route", "hosts", "status", "hand_over", "attend", "place_hold", "release_hold", "purge", "release_kept", "clean_up", "tell_move", "replace_process")
    ID_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    WRITE_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    ANNOUNCE_FIELD_NUMBER: _ClassVar[int]
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    HAND_OVER_FIELD_NUMBER: _ClassVar[int]
    ATTEND_FIELD_NUMBER: _ClassVar[int]
    PLACE_HOLD_FIELD_NUMBER: _ClassVar[int]
    RELEASE_HOLD_FIELD_NUMBER: _ClassVar[int]
    PURGE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_KEPT_FIELD_NUMBER: _ClassVar[int]
    CLEAN_UP_FIELD_NUMBER: _ClassVar[int]
    TELL_MOVE_FIELD_NUMBER: _ClassVar[int]
    REPLACE_PROCESS_FIELD_NUMBER: _ClassVar[int]
    id: int
    deadline_ms: int
    host: str
    request_id: bytes
    traceparent: str
    write: Write
    question: Question
    ready: ReadyQuestion
    next_page: NextPage
    register: Register
    announce: Announce
    route: RouteQuestion
    hosts: HostsQuestion
    status: StatusQuestion
    hand_over: HandOver
    attend: Attend
    place_hold: PlaceHold
    release_hold: ReleaseHold
    purge: Purge
    release_kept: ReleaseKept
    clean_up: CleanUp
    tell_move: TellMove
    replace_process: ReplaceProcess
    def __init__(self, id: _Optional[int] = ..., deadline_ms: _Optional[int] = ..., host: _Optional[str] = ..., request_id: _Optional[bytes] = ..., traceparent: _Optional[str] = ..., write: _Optional[_Union[Write, _Mapping]] = ..., question: _Optional[_Union[Question, _Mapping]] = ..., ready: _Optional[_Union[ReadyQuestion, _Mapping]] = ..., next_page: _Optional[_Union[NextPage, _Mapping]] = ..., register: _Optional[_Union[Register, _Mapping]] = ..., announce: _Optional[_Union[Announce, _Mapping]] = ..., route: _Optional[_Union[RouteQuestion, _Mapping]] = ..., hosts: _Optional[_Union[HostsQuestion, _Mapping]] = ..., status: _Optional[_Union[StatusQuestion, _Mapping]] = ..., hand_over: _Optional[_Union[HandOver, _Mapping]] = ..., attend: _Optional[_Union[Attend, _Mapping]] = ..., place_hold: _Optional[_Union[PlaceHold, _Mapping]] = ..., release_hold: _Optional[_Union[ReleaseHold, _Mapping]] = ..., purge: _Optional[_Union[Purge, _Mapping]] = ..., release_kept: _Optional[_Union[ReleaseKept, _Mapping]] = ..., clean_up: _Optional[_Union[CleanUp, _Mapping]] = ..., tell_move: _Optional[_Union[TellMove, _Mapping]] = ..., replace_process: _Optional[_Union[ReplaceProcess, _Mapping]] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("id", "better_door", "failure", "written", "found", "ready", "registered", "announced", "routes", "hosts", "status", "owned", "ownership", "hold_told", "to_purge", "kept_released", "cleaned_up", "move_told", "replacement")
    ID_FIELD_NUMBER: _ClassVar[int]
    BETTER_DOOR_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    ANNOUNCED_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    OWNED_FIELD_NUMBER: _ClassVar[int]
    OWNERSHIP_FIELD_NUMBER: _ClassVar[int]
    HOLD_TOLD_FIELD_NUMBER: _ClassVar[int]
    TO_PURGE_FIELD_NUMBER: _ClassVar[int]
    KEPT_RELEASED_FIELD_NUMBER: _ClassVar[int]
    CLEANED_UP_FIELD_NUMBER: _ClassVar[int]
    MOVE_TOLD_FIELD_NUMBER: _ClassVar[int]
    REPLACEMENT_FIELD_NUMBER: _ClassVar[int]
    id: int
    better_door: str
    failure: Failure
    written: Written
    found: Found
    ready: Ready
    registered: Registered
    announced: Announced
    routes: Routes
    hosts: Hosts
    status: Status
    owned: Owned
    ownership: Ownership
    hold_told: HoldTold
    to_purge: ToPurge
    kept_released: KeptReleased
    cleaned_up: CleanedUp
    move_told: MoveTold
    replacement: Replacement
    def __init__(self, id: _Optional[int] = ..., better_door: _Optional[str] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., written: _Optional[_Union[Written, _Mapping]] = ..., found: _Optional[_Union[Found, _Mapping]] = ..., ready: _Optional[_Union[Ready, _Mapping]] = ..., registered: _Optional[_Union[Registered, _Mapping]] = ..., announced: _Optional[_Union[Announced, _Mapping]] = ..., routes: _Optional[_Union[Routes, _Mapping]] = ..., hosts: _Optional[_Union[Hosts, _Mapping]] = ..., status: _Optional[_Union[Status, _Mapping]] = ..., owned: _Optional[_Union[Owned, _Mapping]] = ..., ownership: _Optional[_Union[Ownership, _Mapping]] = ..., hold_told: _Optional[_Union[HoldTold, _Mapping]] = ..., to_purge: _Optional[_Union[ToPurge, _Mapping]] = ..., kept_released: _Optional[_Union[KeptReleased, _Mapping]] = ..., cleaned_up: _Optional[_Union[CleanedUp, _Mapping]] = ..., move_told: _Optional[_Union[MoveTold, _Mapping]] = ..., replacement: _Optional[_Union[Replacement, _Mapping]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("kind", "message", "fate", "request_id")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FATE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    kind: Kind
    message: str
    fate: Fate
    request_id: bytes
    def __init__(self, kind: _Optional[_Union[Kind, str]] = ..., message: _Optional[str] = ..., fate: _Optional[_Union[Fate, str]] = ..., request_id: _Optional[bytes] = ...) -> None: ...

class Partition(_message.Message):
    __slots__ = ("topic_id", "partition", "topic")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    topic: str
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., topic: _Optional[str] = ...) -> None: ...

class Claim(_message.Message):
    __slots__ = ("broker_id", "incarnation", "announcement")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ANNOUNCEMENT_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    incarnation: int
    announcement: int
    def __init__(self, broker_id: _Optional[int] = ..., incarnation: _Optional[int] = ..., announcement: _Optional[int] = ...) -> None: ...

class Write(_message.Message):
    __slots__ = ("partition", "claim", "origin_broker_id", "request_id", "add", "update", "delete", "import_records")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ADD_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    IMPORT_RECORDS_FIELD_NUMBER: _ClassVar[int]
    partition: Partition
    claim: Claim
    origin_broker_id: int
    request_id: bytes
    add: AddSegment
    update: UpdateSegment
    delete: DeletePartition
    import_records: ImportRecords
    def __init__(self, partition: _Optional[_Union[Partition, _Mapping]] = ..., claim: _Optional[_Union[Claim, _Mapping]] = ..., origin_broker_id: _Optional[int] = ..., request_id: _Optional[bytes] = ..., add: _Optional[_Union[AddSegment, _Mapping]] = ..., update: _Optional[_Union[UpdateSegment, _Mapping]] = ..., delete: _Optional[_Union[DeletePartition, _Mapping]] = ..., import_records: _Optional[_Union[ImportRecords, _Mapping]] = ...) -> None: ...

class Written(_message.Message):
    __slots__ = ("position",)
    POSITION_FIELD_NUMBER: _ClassVar[int]
    position: int
    def __init__(self, position: _Optional[int] = ...) -> None: ...

class EpochStart(_message.Message):
    __slots__ = ("epoch", "offset")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    offset: int
    def __init__(self, epoch: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class AddSegment(_message.Message):
    __slots__ = ("segment_id", "start_offset", "end_offset", "max_timestamp_ms", "broker_id", "event_timestamp_ms", "segment_size_in_bytes", "segment_leader_epochs", "custom_metadata", "txn_index_empty")
    SEGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_SIZE_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_LEADER_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_METADATA_FIELD_NUMBER: _ClassVar[int]
    TXN_INDEX_EMPTY_FIELD_NUMBER: _ClassVar[int]
    segment_id: bytes
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    segment_size_in_bytes: int
    segment_leader_epochs: _containers.RepeatedCompositeFieldContainer[EpochStart]
    custom_metadata: bytes
    txn_index_empty: bool
    def __init__(self, segment_id: _Optional[bytes] = ..., start_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., max_timestamp_ms: _Optional[int] = ..., broker_id: _Optional[int] = ..., event_timestamp_ms: _Optional[int] = ..., segment_size_in_bytes: _Optional[int] = ..., segment_leader_epochs: _Optional[_Iterable[_Union[EpochStart, _Mapping]]] = ..., custom_metadata: _Optional[bytes] = ..., txn_index_empty: _Optional[bool] = ...) -> None: ...

class UpdateSegment(_message.Message):
    __slots__ = ("segment_id", "event_timestamp_ms", "state", "broker_id", "custom_metadata", "guarded_for")
    SEGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_METADATA_FIELD_NUMBER: _ClassVar[int]
    GUARDED_FOR_FIELD_NUMBER: _ClassVar[int]
    segment_id: bytes
    event_timestamp_ms: int
    state: SegmentState
    broker_id: int
    custom_metadata: bytes
    guarded_for: DeletionCause
    def __init__(self, segment_id: _Optional[bytes] = ..., event_timestamp_ms: _Optional[int] = ..., state: _Optional[_Union[SegmentState, str]] = ..., broker_id: _Optional[int] = ..., custom_metadata: _Optional[bytes] = ..., guarded_for: _Optional[_Union[DeletionCause, str]] = ...) -> None: ...

class DeletePartition(_message.Message):
    __slots__ = ("state", "event_timestamp_ms", "broker_id")
    STATE_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    state: DeletionState
    event_timestamp_ms: int
    broker_id: int
    def __init__(self, state: _Optional[_Union[DeletionState, str]] = ..., event_timestamp_ms: _Optional[int] = ..., broker_id: _Optional[int] = ...) -> None: ...

class ImportRecords(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[ImportedRecord]
    def __init__(self, records: _Optional[_Iterable[_Union[ImportedRecord, _Mapping]]] = ...) -> None: ...

class ImportedRecord(_message.Message):
    __slots__ = ("metadata_partition", "offset", "timestamp_ms", "record")
    METADATA_PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    metadata_partition: int
    offset: int
    timestamp_ms: int
    record: bytes
    def __init__(self, metadata_partition: _Optional[int] = ..., offset: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., record: _Optional[bytes] = ...) -> None: ...

class Question(_message.Message):
    __slots__ = ("partition", "role", "kind", "epoch", "offset", "position_min")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    POSITION_MIN_FIELD_NUMBER: _ClassVar[int]
    partition: Partition
    role: Role
    kind: QuestionKind
    epoch: int
    offset: int
    position_min: int
    def __init__(self, partition: _Optional[_Union[Partition, _Mapping]] = ..., role: _Optional[_Union[Role, str]] = ..., kind: _Optional[_Union[QuestionKind, str]] = ..., epoch: _Optional[int] = ..., offset: _Optional[int] = ..., position_min: _Optional[int] = ...) -> None: ...

class Found(_message.Message):
    __slots__ = ("position", "stale", "cursor", "row", "number", "rows", "summary")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    position: int
    stale: bool
    cursor: str
    row: bytes
    number: int
    rows: Rows
    summary: Summary
    def __init__(self, position: _Optional[int] = ..., stale: _Optional[bool] = ..., cursor: _Optional[str] = ..., row: _Optional[bytes] = ..., number: _Optional[int] = ..., rows: _Optional[_Union[Rows, _Mapping]] = ..., summary: _Optional[_Union[Summary, _Mapping]] = ...) -> None: ...

class Rows(_message.Message):
    __slots__ = ("rows",)
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, rows: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Summary(_message.Message):
    __slots__ = ("count_by_state", "bytes_by_state", "leader_epochs", "deletion")
    COUNT_BY_STATE_FIELD_NUMBER: _ClassVar[int]
    BYTES_BY_STATE_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    DELETION_FIELD_NUMBER: _ClassVar[int]
    count_by_state: _containers.RepeatedScalarFieldContainer[int]
    bytes_by_state: _containers.RepeatedScalarFieldContainer[int]
    leader_epochs: _containers.RepeatedScalarFieldContainer[int]
    deletion: DeletionState
    def __init__(self, count_by_state: _Optional[_Iterable[int]] = ..., bytes_by_state: _Optional[_Iterable[int]] = ..., leader_epochs: _Optional[_Iterable[int]] = ..., deletion: _Optional[_Union[DeletionState, str]] = ...) -> None: ...

class NextPage(_message.Message):
    __slots__ = ("cursor",)
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    cursor: str
    def __init__(self, cursor: _Optional[str] = ...) -> None: ...

class ReadyQuestion(_message.Message):
    __slots__ = ("partition", "role", "claim")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    partition: Partition
    role: Role
    claim: Claim
    def __init__(self, partition: _Optional[_Union[Partition, _Mapping]] = ..., role: _Optional[_Union[Role, str]] = ..., claim: _Optional[_Union[Claim, _Mapping]] = ...) -> None: ...

class Ready(_message.Message):
    __slots__ = ("is_ready",)
    IS_READY_FIELD_NUMBER: _ClassVar[int]
    is_ready: bool
    def __init__(self, is_ready: _Optional[bool] = ...) -> None: ...

class Register(_message.Message):
    __slots__ = ("broker_id", "request", "after", "is_plugin", "mode")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    IS_PLUGIN_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    request: bytes
    after: int
    is_plugin: bool
    mode: PluginMode
    def __init__(self, broker_id: _Optional[int] = ..., request: _Optional[bytes] = ..., after: _Optional[int] = ..., is_plugin: _Optional[bool] = ..., mode: _Optional[_Union[PluginMode, str]] = ...) -> None: ...

class Registered(_message.Message):
    __slots__ = ("incarnation", "is_given")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    IS_GIVEN_FIELD_NUMBER: _ClassVar[int]
    incarnation: int
    is_given: bool
    def __init__(self, incarnation: _Optional[int] = ..., is_given: _Optional[bool] = ...) -> None: ...

class HandOver(_message.Message):
    __slots__ = ("to", "of", "heading", "owner_epoch", "give_up_after_ms", "accepted")
    TO_FIELD_NUMBER: _ClassVar[int]
    OF_FIELD_NUMBER: _ClassVar[int]
    HEADING_FIELD_NUMBER: _ClassVar[int]
    OWNER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    GIVE_UP_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    to: str
    of: str
    heading: str
    owner_epoch: int
    give_up_after_ms: int
    accepted: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, to: _Optional[str] = ..., of: _Optional[str] = ..., heading: _Optional[str] = ..., owner_epoch: _Optional[int] = ..., give_up_after_ms: _Optional[int] = ..., accepted: _Optional[_Iterable[bytes]] = ...) -> None: ...

class TellMove(_message.Message):
    __slots__ = ("to", "phase", "owner_epoch", "comparisons", "compared_ms_ago", "differing", "differences", "waits", "outcome")
    TO_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    OWNER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    COMPARISONS_FIELD_NUMBER: _ClassVar[int]
    COMPARED_MS_AGO_FIELD_NUMBER: _ClassVar[int]
    DIFFERING_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    to: str
    phase: str
    owner_epoch: int
    comparisons: int
    compared_ms_ago: int
    differing: int
    differences: _containers.RepeatedScalarFieldContainer[str]
    waits: str
    outcome: str
    def __init__(self, to: _Optional[str] = ..., phase: _Optional[str] = ..., owner_epoch: _Optional[int] = ..., comparisons: _Optional[int] = ..., compared_ms_ago: _Optional[int] = ..., differing: _Optional[int] = ..., differences: _Optional[_Iterable[str]] = ..., waits: _Optional[str] = ..., outcome: _Optional[str] = ...) -> None: ...

class MoveTold(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Owned(_message.Message):
    __slots__ = ("owner", "owner_epoch")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    OWNER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    owner: str
    owner_epoch: int
    def __init__(self, owner: _Optional[str] = ..., owner_epoch: _Optional[int] = ...) -> None: ...

class PlaceHold(_message.Message):
    __slots__ = ("name", "topic", "topic_id", "partition", "first_offset", "last_offset", "after_ms", "before_ms", "until_ms", "reason", "by", "term_ms", "cause")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    TERM_MS_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic: str
    topic_id: bytes
    partition: int
    first_offset: int
    last_offset: int
    after_ms: int
    before_ms: int
    until_ms: int
    reason: str
    by: str
    term_ms: int
    cause: DeletionCause
    def __init__(self, name: _Optional[str] = ..., topic: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ..., after_ms: _Optional[int] = ..., before_ms: _Optional[int] = ..., until_ms: _Optional[int] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ..., term_ms: _Optional[int] = ..., cause: _Optional[_Union[DeletionCause, str]] = ...) -> None: ...

class ReleaseHold(_message.Message):
    __slots__ = ("name", "by", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    by: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., by: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Purge(_message.Message):
    __slots__ = ("broker_id", "partition", "segment_id")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    partition: Partition
    segment_id: bytes
    def __init__(self, broker_id: _Optional[int] = ..., partition: _Optional[_Union[Partition, _Mapping]] = ..., segment_id: _Optional[bytes] = ...) -> None: ...

class ToPurge(_message.Message):
    __slots__ = ("partition", "row")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    partition: Partition
    row: bytes
    def __init__(self, partition: _Optional[_Union[Partition, _Mapping]] = ..., row: _Optional[bytes] = ...) -> None: ...

class ReleaseKept(_message.Message):
    __slots__ = ("partition", "segment_ids", "by", "reason")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_IDS_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    partition: Partition
    segment_ids: _containers.RepeatedScalarFieldContainer[bytes]
    by: str
    reason: str
    def __init__(self, partition: _Optional[_Union[Partition, _Mapping]] = ..., segment_ids: _Optional[_Iterable[bytes]] = ..., by: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class KeptReleased(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CleanUp(_message.Message):
    __slots__ = ("partition", "state", "rows", "event_timestamp_ms", "kept_until_ms", "reason", "cause", "by")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    KEPT_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    partition: Partition
    state: SegmentState
    rows: _containers.RepeatedScalarFieldContainer[bytes]
    event_timestamp_ms: int
    kept_until_ms: int
    reason: str
    cause: DeletionCause
    by: str
    def __init__(self, partition: _Optional[_Union[Partition, _Mapping]] = ..., state: _Optional[_Union[SegmentState, str]] = ..., rows: _Optional[_Iterable[bytes]] = ..., event_timestamp_ms: _Optional[int] = ..., kept_until_ms: _Optional[int] = ..., reason: _Optional[str] = ..., cause: _Optional[_Union[DeletionCause, str]] = ..., by: _Optional[str] = ...) -> None: ...

class CleanedUp(_message.Message):
    __slots__ = ("rows",)
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, rows: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ReplaceProcess(_message.Message):
    __slots__ = ("host", "process", "leaves_node")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    LEAVES_NODE_FIELD_NUMBER: _ClassVar[int]
    host: str
    process: str
    leaves_node: bool
    def __init__(self, host: _Optional[str] = ..., process: _Optional[str] = ..., leaves_node: _Optional[bool] = ...) -> None: ...

class Replacement(_message.Message):
    __slots__ = ("step", "left")
    class Step(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STEP_UNSPECIFIED: _ClassVar[Replacement.Step]
        MOVING: _ClassVar[Replacement.Step]
        STARTING: _ClassVar[Replacement.Step]
        DONE: _ClassVar[Replacement.Step]
    STEP_UNSPECIFIED: Replacement.Step
    MOVING: Replacement.Step
    STARTING: Replacement.Step
    DONE: Replacement.Step
    STEP_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    step: Replacement.Step
    left: int
    def __init__(self, step: _Optional[_Union[Replacement.Step, str]] = ..., left: _Optional[int] = ...) -> None: ...

class HoldTold(_message.Message):
    __slots__ = ("late",)
    LATE_FIELD_NUMBER: _ClassVar[int]
    late: _containers.RepeatedCompositeFieldContainer[Partition]
    def __init__(self, late: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ...) -> None: ...

class Attend(_message.Message):
    __slots__ = ("broker_id", "incarnation", "mode", "owner_epoch", "is_idle", "shadow", "positions", "seen_epoch", "seen_reads", "other_logs", "ran_ms", "is_guarded", "clock_ms", "release")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    OWNER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_IDLE_FIELD_NUMBER: _ClassVar[int]
    SHADOW_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    SEEN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEEN_READS_FIELD_NUMBER: _ClassVar[int]
    OTHER_LOGS_FIELD_NUMBER: _ClassVar[int]
    RAN_MS_FIELD_NUMBER: _ClassVar[int]
    IS_GUARDED_FIELD_NUMBER: _ClassVar[int]
    CLOCK_MS_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    incarnation: int
    mode: PluginMode
    owner_epoch: int
    is_idle: bool
    shadow: ShadowReport
    positions: int
    seen_epoch: int
    seen_reads: str
    other_logs: _containers.RepeatedCompositeFieldContainer[Partition]
    ran_ms: int
    is_guarded: bool
    clock_ms: int
    release: str
    def __init__(self, broker_id: _Optional[int] = ..., incarnation: _Optional[int] = ..., mode: _Optional[_Union[PluginMode, str]] = ..., owner_epoch: _Optional[int] = ..., is_idle: _Optional[bool] = ..., shadow: _Optional[_Union[ShadowReport, _Mapping]] = ..., positions: _Optional[int] = ..., seen_epoch: _Optional[int] = ..., seen_reads: _Optional[str] = ..., other_logs: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ..., ran_ms: _Optional[int] = ..., is_guarded: _Optional[bool] = ..., clock_ms: _Optional[int] = ..., release: _Optional[str] = ...) -> None: ...

class Ownership(_message.Message):
    __slots__ = ("epoch", "owner", "source", "heading", "reads", "import_rounds", "accepted")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    HEADING_FIELD_NUMBER: _ClassVar[int]
    READS_FIELD_NUMBER: _ClassVar[int]
    IMPORT_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    owner: str
    source: str
    heading: str
    reads: str
    import_rounds: int
    accepted: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, epoch: _Optional[int] = ..., owner: _Optional[str] = ..., source: _Optional[str] = ..., heading: _Optional[str] = ..., reads: _Optional[str] = ..., import_rounds: _Optional[int] = ..., accepted: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ShadowReport(_message.Message):
    __slots__ = ("equal", "skipped", "differences", "resolved", "standing", "verified", "verified_ms_ago")
    EQUAL_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_MS_AGO_FIELD_NUMBER: _ClassVar[int]
    equal: int
    skipped: int
    differences: _containers.RepeatedCompositeFieldContainer[Difference]
    resolved: _containers.RepeatedCompositeFieldContainer[Difference]
    standing: int
    verified: int
    verified_ms_ago: int
    def __init__(self, equal: _Optional[int] = ..., skipped: _Optional[int] = ..., differences: _Optional[_Iterable[_Union[Difference, _Mapping]]] = ..., resolved: _Optional[_Iterable[_Union[Difference, _Mapping]]] = ..., standing: _Optional[int] = ..., verified: _Optional[int] = ..., verified_ms_ago: _Optional[int] = ...) -> None: ...

class Difference(_message.Message):
    __slots__ = ("partition", "kind", "epoch", "offset", "position", "kafka", "replica", "kafka_number", "replica_number", "contents")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    KAFKA_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    KAFKA_NUMBER_FIELD_NUMBER: _ClassVar[int]
    REPLICA_NUMBER_FIELD_NUMBER: _ClassVar[int]
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    partition: Partition
    kind: QuestionKind
    epoch: int
    offset: int
    position: int
    kafka: _containers.RepeatedScalarFieldContainer[bytes]
    replica: _containers.RepeatedScalarFieldContainer[bytes]
    kafka_number: int
    replica_number: int
    contents: str
    def __init__(self, partition: _Optional[_Union[Partition, _Mapping]] = ..., kind: _Optional[_Union[QuestionKind, str]] = ..., epoch: _Optional[int] = ..., offset: _Optional[int] = ..., position: _Optional[int] = ..., kafka: _Optional[_Iterable[bytes]] = ..., replica: _Optional[_Iterable[bytes]] = ..., kafka_number: _Optional[int] = ..., replica_number: _Optional[int] = ..., contents: _Optional[str] = ...) -> None: ...

class Announce(_message.Message):
    __slots__ = ("broker_id", "incarnation", "number", "leaders", "followers", "stopped", "import_cluster")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LEADERS_FIELD_NUMBER: _ClassVar[int]
    FOLLOWERS_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    IMPORT_CLUSTER_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    incarnation: int
    number: int
    leaders: _containers.RepeatedCompositeFieldContainer[LedPartition]
    followers: _containers.RepeatedCompositeFieldContainer[Partition]
    stopped: _containers.RepeatedCompositeFieldContainer[Partition]
    import_cluster: str
    def __init__(self, broker_id: _Optional[int] = ..., incarnation: _Optional[int] = ..., number: _Optional[int] = ..., leaders: _Optional[_Iterable[_Union[LedPartition, _Mapping]]] = ..., followers: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ..., stopped: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ..., import_cluster: _Optional[str] = ...) -> None: ...

class LedPartition(_message.Message):
    __slots__ = ("partition", "leader_epoch", "recorded_time_ms")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    RECORDED_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    partition: Partition
    leader_epoch: int
    recorded_time_ms: int
    def __init__(self, partition: _Optional[_Union[Partition, _Mapping]] = ..., leader_epoch: _Optional[int] = ..., recorded_time_ms: _Optional[int] = ...) -> None: ...

class Announced(_message.Message):
    __slots__ = ("claims",)
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.RepeatedCompositeFieldContainer[Claim]
    def __init__(self, claims: _Optional[_Iterable[_Union[Claim, _Mapping]]] = ...) -> None: ...

class RouteQuestion(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[Partition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ...) -> None: ...

class Routes(_message.Message):
    __slots__ = ("routes",)
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    routes: _containers.RepeatedCompositeFieldContainer[Route]
    def __init__(self, routes: _Optional[_Iterable[_Union[Route, _Mapping]]] = ...) -> None: ...

class Route(_message.Message):
    __slots__ = ("known", "leader", "follower", "leader_claim", "follower_claims", "topic")
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    FOLLOWER_FIELD_NUMBER: _ClassVar[int]
    LEADER_CLAIM_FIELD_NUMBER: _ClassVar[int]
    FOLLOWER_CLAIMS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    known: bool
    leader: Host
    follower: Host
    leader_claim: Claim
    follower_claims: _containers.RepeatedCompositeFieldContainer[Claim]
    topic: str
    def __init__(self, known: _Optional[bool] = ..., leader: _Optional[_Union[Host, _Mapping]] = ..., follower: _Optional[_Union[Host, _Mapping]] = ..., leader_claim: _Optional[_Union[Claim, _Mapping]] = ..., follower_claims: _Optional[_Iterable[_Union[Claim, _Mapping]]] = ..., topic: _Optional[str] = ...) -> None: ...

class Host(_message.Message):
    __slots__ = ("address", "door")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DOOR_FIELD_NUMBER: _ClassVar[int]
    address: str
    door: str
    def __init__(self, address: _Optional[str] = ..., door: _Optional[str] = ...) -> None: ...

class HostsQuestion(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Hosts(_message.Message):
    __slots__ = ("hosts",)
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    hosts: _containers.RepeatedCompositeFieldContainer[Host]
    def __init__(self, hosts: _Optional[_Iterable[_Union[Host, _Mapping]]] = ...) -> None: ...

class StatusQuestion(_message.Message):
    __slots__ = ("of",)
    class Of(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OF_UNSPECIFIED: _ClassVar[StatusQuestion.Of]
        SERVICE: _ClassVar[StatusQuestion.Of]
        HOST: _ClassVar[StatusQuestion.Of]
        PARTITIONS: _ClassVar[StatusQuestion.Of]
    OF_UNSPECIFIED: StatusQuestion.Of
    SERVICE: StatusQuestion.Of
    HOST: StatusQuestion.Of
    PARTITIONS: StatusQuestion.Of
    OF_FIELD_NUMBER: _ClassVar[int]
    of: StatusQuestion.Of
    def __init__(self, of: _Optional[_Union[StatusQuestion.Of, str]] = ...) -> None: ...

class Status(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...

class Subscribe(_message.Message):
    __slots__ = ("id", "partition", "role", "position", "chain_hash", "floor", "claim", "head_only", "without_rows")
    ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    CHAIN_HASH_FIELD_NUMBER: _ClassVar[int]
    FLOOR_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    HEAD_ONLY_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_ROWS_FIELD_NUMBER: _ClassVar[int]
    id: int
    partition: Partition
    role: Role
    position: int
    chain_hash: bytes
    floor: int
    claim: Claim
    head_only: bool
    without_rows: bool
    def __init__(self, id: _Optional[int] = ..., partition: _Optional[_Union[Partition, _Mapping]] = ..., role: _Optional[_Union[Role, str]] = ..., position: _Optional[int] = ..., chain_hash: _Optional[bytes] = ..., floor: _Optional[int] = ..., claim: _Optional[_Union[Claim, _Mapping]] = ..., head_only: _Optional[bool] = ..., without_rows: _Optional[bool] = ...) -> None: ...

class Expect(_message.Message):
    __slots__ = ("id", "claim")
    ID_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    id: int
    claim: Claim
    def __init__(self, id: _Optional[int] = ..., claim: _Optional[_Union[Claim, _Mapping]] = ...) -> None: ...

class Fed(_message.Message):
    __slots__ = ("id", "snapshot", "slice", "change", "ready", "fenced", "other_history", "ended", "head")
    ID_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    SLICE_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    FENCED_FIELD_NUMBER: _ClassVar[int]
    OTHER_HISTORY_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    id: int
    snapshot: SnapshotBegun
    slice: Slice
    change: Change
    ready: FeedReady
    fenced: FeedFenced
    other_history: OtherHistory
    ended: FeedEnded
    head: Head
    def __init__(self, id: _Optional[int] = ..., snapshot: _Optional[_Union[SnapshotBegun, _Mapping]] = ..., slice: _Optional[_Union[Slice, _Mapping]] = ..., change: _Optional[_Union[Change, _Mapping]] = ..., ready: _Optional[_Union[FeedReady, _Mapping]] = ..., fenced: _Optional[_Union[FeedFenced, _Mapping]] = ..., other_history: _Optional[_Union[OtherHistory, _Mapping]] = ..., ended: _Optional[_Union[FeedEnded, _Mapping]] = ..., head: _Optional[_Union[Head, _Mapping]] = ...) -> None: ...

class EpochNumbers(_message.Message):
    __slots__ = ("epoch", "highest", "size")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    highest: int
    size: int
    def __init__(self, epoch: _Optional[int] = ..., highest: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class Strays(_message.Message):
    __slots__ = ("segment_id", "epochs")
    SEGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    segment_id: bytes
    epochs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, segment_id: _Optional[bytes] = ..., epochs: _Optional[_Iterable[int]] = ...) -> None: ...

class Contents(_message.Message):
    __slots__ = ("rows", "gone", "strays", "epochs")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    STRAYS_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedScalarFieldContainer[bytes]
    gone: _containers.RepeatedScalarFieldContainer[bytes]
    strays: _containers.RepeatedCompositeFieldContainer[Strays]
    epochs: _containers.RepeatedCompositeFieldContainer[EpochNumbers]
    def __init__(self, rows: _Optional[_Iterable[bytes]] = ..., gone: _Optional[_Iterable[bytes]] = ..., strays: _Optional[_Iterable[_Union[Strays, _Mapping]]] = ..., epochs: _Optional[_Iterable[_Union[EpochNumbers, _Mapping]]] = ...) -> None: ...

class SnapshotBegun(_message.Message):
    __slots__ = ("position", "chain_hash", "deletion", "checksum")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    CHAIN_HASH_FIELD_NUMBER: _ClassVar[int]
    DELETION_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    position: int
    chain_hash: bytes
    deletion: DeletionState
    checksum: bytes
    def __init__(self, position: _Optional[int] = ..., chain_hash: _Optional[bytes] = ..., deletion: _Optional[_Union[DeletionState, str]] = ..., checksum: _Optional[bytes] = ...) -> None: ...

class Slice(_message.Message):
    __slots__ = ("position", "number", "contents", "is_last")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    position: int
    number: int
    contents: Contents
    is_last: bool
    def __init__(self, position: _Optional[int] = ..., number: _Optional[int] = ..., contents: _Optional[_Union[Contents, _Mapping]] = ..., is_last: _Optional[bool] = ...) -> None: ...

class Change(_message.Message):
    __slots__ = ("after", "position", "number", "contents", "is_last", "chain_hash", "deletion", "checksum")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    CHAIN_HASH_FIELD_NUMBER: _ClassVar[int]
    DELETION_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    after: int
    position: int
    number: int
    contents: Contents
    is_last: bool
    chain_hash: bytes
    deletion: DeletionState
    checksum: bytes
    def __init__(self, after: _Optional[int] = ..., position: _Optional[int] = ..., number: _Optional[int] = ..., contents: _Optional[_Union[Contents, _Mapping]] = ..., is_last: _Optional[bool] = ..., chain_hash: _Optional[bytes] = ..., deletion: _Optional[_Union[DeletionState, str]] = ..., checksum: _Optional[bytes] = ...) -> None: ...

class FeedReady(_message.Message):
    __slots__ = ("claim", "position")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    position: int
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ..., position: _Optional[int] = ...) -> None: ...

class FeedFenced(_message.Message):
    __slots__ = ("claim",)
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ...) -> None: ...

class OtherHistory(_message.Message):
    __slots__ = ("position",)
    POSITION_FIELD_NUMBER: _ClassVar[int]
    position: int
    def __init__(self, position: _Optional[int] = ...) -> None: ...

class Head(_message.Message):
    __slots__ = ("position",)
    POSITION_FIELD_NUMBER: _ClassVar[int]
    position: int
    def __init__(self, position: _Optional[int] = ...) -> None: ...

class FeedEnded(_message.Message):
    __slots__ = ("failure", "better_door")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    BETTER_DOOR_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    better_door: str
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., better_door: _Optional[str] = ...) -> None: ...
