from quorate.v1 import messages_pb2 as _messages_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PromiseRequest(_message.Message):
    __slots__ = ("source", "epoch", "reg_id", "instance", "take_over", "protocol_version")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REG_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    TAKE_OVER_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    epoch: int
    reg_id: int
    instance: bytes
    take_over: bool
    protocol_version: int
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., epoch: _Optional[int] = ..., reg_id: _Optional[int] = ..., instance: _Optional[bytes] = ..., take_over: bool = ..., protocol_version: _Optional[int] = ...) -> None: ...

class PromiseResponse(_message.Message):
    __slots__ = ("reg_id", "incarnation", "limbo", "begun_epoch", "lineage", "membership", "held", "stable_upto", "store_name")
    REG_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LIMBO_FIELD_NUMBER: _ClassVar[int]
    BEGUN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    MEMBERSHIP_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    STABLE_UPTO_FIELD_NUMBER: _ClassVar[int]
    STORE_NAME_FIELD_NUMBER: _ClassVar[int]
    reg_id: int
    incarnation: bytes
    limbo: bool
    begun_epoch: int
    lineage: _containers.RepeatedCompositeFieldContainer[_messages_pb2.LineageEntry]
    membership: _messages_pb2.Membership
    held: _containers.RepeatedCompositeFieldContainer[_messages_pb2.HeldRange]
    stable_upto: int
    store_name: str
    def __init__(self, reg_id: _Optional[int] = ..., incarnation: _Optional[bytes] = ..., limbo: bool = ..., begun_epoch: _Optional[int] = ..., lineage: _Optional[_Iterable[_Union[_messages_pb2.LineageEntry, _Mapping]]] = ..., membership: _Optional[_Union[_messages_pb2.Membership, _Mapping]] = ..., held: _Optional[_Iterable[_Union[_messages_pb2.HeldRange, _Mapping]]] = ..., stable_upto: _Optional[int] = ..., store_name: _Optional[str] = ...) -> None: ...

class BeginRequest(_message.Message):
    __slots__ = ("source", "epoch", "lineage", "membership", "protocol_version")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    MEMBERSHIP_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    epoch: int
    lineage: _containers.RepeatedCompositeFieldContainer[_messages_pb2.LineageEntry]
    membership: _messages_pb2.Membership
    protocol_version: int
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., epoch: _Optional[int] = ..., lineage: _Optional[_Iterable[_Union[_messages_pb2.LineageEntry, _Mapping]]] = ..., membership: _Optional[_Union[_messages_pb2.Membership, _Mapping]] = ..., protocol_version: _Optional[int] = ...) -> None: ...

class BeginResponse(_message.Message):
    __slots__ = ("set_aside",)
    SET_ASIDE_FIELD_NUMBER: _ClassVar[int]
    set_aside: int
    def __init__(self, set_aside: _Optional[int] = ...) -> None: ...

class AppendResponse(_message.Message):
    __slots__ = ("opened", "durable", "failed")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    opened: AppendOpened
    durable: Durable
    failed: _messages_pb2.Failure
    def __init__(self, opened: _Optional[_Union[AppendOpened, _Mapping]] = ..., durable: _Optional[_Union[Durable, _Mapping]] = ..., failed: _Optional[_Union[_messages_pb2.Failure, _Mapping]] = ...) -> None: ...

class AppendOpened(_message.Message):
    __slots__ = ("next_sequence", "durability")
    NEXT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    next_sequence: int
    durability: _messages_pb2.Durability
    def __init__(self, next_sequence: _Optional[int] = ..., durability: _Optional[_Union[_messages_pb2.Durability, str]] = ...) -> None: ...

class Durable(_message.Message):
    __slots__ = ("upto",)
    UPTO_FIELD_NUMBER: _ClassVar[int]
    upto: int
    def __init__(self, upto: _Optional[int] = ...) -> None: ...

class RegisterReceiverRequest(_message.Message):
    __slots__ = ("source", "session_id", "reg_id", "epoch", "protocol_version")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REG_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    session_id: int
    reg_id: int
    epoch: int
    protocol_version: int
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., session_id: _Optional[int] = ..., reg_id: _Optional[int] = ..., epoch: _Optional[int] = ..., protocol_version: _Optional[int] = ...) -> None: ...

class RegisterReceiverResponse(_message.Message):
    __slots__ = ("reg_id", "source_reg_id", "incarnation", "limbo", "acknowledged_upto", "low", "high", "stable_upto", "known", "lineage")
    REG_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_REG_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LIMBO_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_UPTO_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    STABLE_UPTO_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    reg_id: int
    source_reg_id: int
    incarnation: bytes
    limbo: bool
    acknowledged_upto: int
    low: int
    high: int
    stable_upto: int
    known: bool
    lineage: _containers.RepeatedCompositeFieldContainer[_messages_pb2.LineageEntry]
    def __init__(self, reg_id: _Optional[int] = ..., source_reg_id: _Optional[int] = ..., incarnation: _Optional[bytes] = ..., limbo: bool = ..., acknowledged_upto: _Optional[int] = ..., low: _Optional[int] = ..., high: _Optional[int] = ..., stable_upto: _Optional[int] = ..., known: bool = ..., lineage: _Optional[_Iterable[_Union[_messages_pb2.LineageEntry, _Mapping]]] = ...) -> None: ...

class Acknowledgement(_message.Message):
    __slots__ = ("source", "epoch", "upto")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    epoch: int
    upto: int
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., epoch: _Optional[int] = ..., upto: _Optional[int] = ...) -> None: ...

class AcknowledgeRequest(_message.Message):
    __slots__ = ("session_id", "acknowledgements")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGEMENTS_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    acknowledgements: _containers.RepeatedCompositeFieldContainer[Acknowledgement]
    def __init__(self, session_id: _Optional[int] = ..., acknowledgements: _Optional[_Iterable[_Union[Acknowledgement, _Mapping]]] = ...) -> None: ...

class AcknowledgeResponse(_message.Message):
    __slots__ = ("refused",)
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    refused: _containers.RepeatedCompositeFieldContainer[RefusedAcknowledgement]
    def __init__(self, refused: _Optional[_Iterable[_Union[RefusedAcknowledgement, _Mapping]]] = ...) -> None: ...

class RefusedAcknowledgement(_message.Message):
    __slots__ = ("source", "failure")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    failure: _messages_pb2.Failure
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., failure: _Optional[_Union[_messages_pb2.Failure, _Mapping]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("topic", "topic_pattern", "protocol_version")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_PATTERN_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    topic_pattern: str
    protocol_version: int
    def __init__(self, topic: _Optional[str] = ..., topic_pattern: _Optional[str] = ..., protocol_version: _Optional[int] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("entry", "snapshot_end")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_END_FIELD_NUMBER: _ClassVar[int]
    entry: DirectoryEntry
    snapshot_end: SnapshotEnd
    def __init__(self, entry: _Optional[_Union[DirectoryEntry, _Mapping]] = ..., snapshot_end: _Optional[_Union[SnapshotEnd, _Mapping]] = ...) -> None: ...

class DirectoryEntry(_message.Message):
    __slots__ = ("information", "live")
    INFORMATION_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    information: _messages_pb2.SourceInformation
    live: bool
    def __init__(self, information: _Optional[_Union[_messages_pb2.SourceInformation, _Mapping]] = ..., live: bool = ...) -> None: ...

class SnapshotEnd(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topics: _Optional[_Iterable[str]] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("protocol_version",)
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    def __init__(self, protocol_version: _Optional[int] = ...) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("store_name", "address", "version", "incarnation", "limbo", "uptime_seconds", "durability", "data_directory", "disk_bytes", "disk_free_bytes", "position", "messages", "bytes", "syncs", "sync_seconds", "rejected", "sources")
    STORE_NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LIMBO_FIELD_NUMBER: _ClassVar[int]
    UPTIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    DATA_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    DISK_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SYNCS_FIELD_NUMBER: _ClassVar[int]
    SYNC_SECONDS_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    store_name: str
    address: str
    version: str
    incarnation: bytes
    limbo: bool
    uptime_seconds: float
    durability: _messages_pb2.Durability
    data_directory: str
    disk_bytes: int
    disk_free_bytes: int
    position: int
    messages: int
    bytes: int
    syncs: int
    sync_seconds: float
    rejected: int
    sources: _containers.RepeatedCompositeFieldContainer[SourceStatus]
    def __init__(self, store_name: _Optional[str] = ..., address: _Optional[str] = ..., version: _Optional[str] = ..., incarnation: _Optional[bytes] = ..., limbo: bool = ..., uptime_seconds: _Optional[float] = ..., durability: _Optional[_Union[_messages_pb2.Durability, str]] = ..., data_directory: _Optional[str] = ..., disk_bytes: _Optional[int] = ..., disk_free_bytes: _Optional[int] = ..., position: _Optional[int] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ..., syncs: _Optional[int] = ..., sync_seconds: _Optional[float] = ..., rejected: _Optional[int] = ..., sources: _Optional[_Iterable[_Union[SourceStatus, _Mapping]]] = ...) -> None: ...

class SourceStatus(_message.Message):
    __slots__ = ("information", "reg_id", "promised_epoch", "begun_epoch", "live", "held", "holes", "stable_upto", "set_aside", "receivers", "lineage")
    INFORMATION_FIELD_NUMBER: _ClassVar[int]
    REG_ID_FIELD_NUMBER: _ClassVar[int]
    PROMISED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BEGUN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    HOLES_FIELD_NUMBER: _ClassVar[int]
    STABLE_UPTO_FIELD_NUMBER: _ClassVar[int]
    SET_ASIDE_FIELD_NUMBER: _ClassVar[int]
    RECEIVERS_FIELD_NUMBER: _ClassVar[int]
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    information: _messages_pb2.SourceInformation
    reg_id: int
    promised_epoch: int
    begun_epoch: int
    live: bool
    held: _containers.RepeatedCompositeFieldContainer[_messages_pb2.HeldRange]
    holes: _containers.RepeatedCompositeFieldContainer[_messages_pb2.HeldRange]
    stable_upto: int
    set_aside: int
    receivers: _containers.RepeatedCompositeFieldContainer[ReceiverStatus]
    lineage: _containers.RepeatedCompositeFieldContainer[_messages_pb2.LineageEntry]
    def __init__(self, information: _Optional[_Union[_messages_pb2.SourceInformation, _Mapping]] = ..., reg_id: _Optional[int] = ..., promised_epoch: _Optional[int] = ..., begun_epoch: _Optional[int] = ..., live: bool = ..., held: _Optional[_Iterable[_Union[_messages_pb2.HeldRange, _Mapping]]] = ..., holes: _Optional[_Iterable[_Union[_messages_pb2.HeldRange, _Mapping]]] = ..., stable_upto: _Optional[int] = ..., set_aside: _Optional[int] = ..., receivers: _Optional[_Iterable[_Union[ReceiverStatus, _Mapping]]] = ..., lineage: _Optional[_Iterable[_Union[_messages_pb2.LineageEntry, _Mapping]]] = ...) -> None: ...

class ReceiverStatus(_message.Message):
    __slots__ = ("session_id", "reg_id", "epoch", "acknowledged_upto")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REG_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_UPTO_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    reg_id: int
    epoch: int
    acknowledged_upto: int
    def __init__(self, session_id: _Optional[int] = ..., reg_id: _Optional[int] = ..., epoch: _Optional[int] = ..., acknowledged_upto: _Optional[int] = ...) -> None: ...
