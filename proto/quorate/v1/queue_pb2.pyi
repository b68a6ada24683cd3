from quorate.v1 import messages_pb2 as _messages_pb2
from quorate.v1 import store_pb2 as _store_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SettlementKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SETTLEMENT_KIND_UNSPECIFIED: _ClassVar[SettlementKind]
    SETTLEMENT_KIND_DONE: _ClassVar[SettlementKind]
    SETTLEMENT_KIND_RETRY: _ClassVar[SettlementKind]
    SETTLEMENT_KIND_DISCARD: _ClassVar[SettlementKind]
    SETTLEMENT_KIND_RETURN: _ClassVar[SettlementKind]
    SETTLEMENT_KIND_EXTEND: _ClassVar[SettlementKind]
SETTLEMENT_KIND_UNSPECIFIED: SettlementKind
SETTLEMENT_KIND_DONE: SettlementKind
SETTLEMENT_KIND_RETRY: SettlementKind
SETTLEMENT_KIND_DISCARD: SettlementKind
SETTLEMENT_KIND_RETURN: SettlementKind
SETTLEMENT_KIND_EXTEND: SettlementKind

class ConsumeRequest(_message.Message):
    __slots__ = ("open", "settlements")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    SETTLEMENTS_FIELD_NUMBER: _ClassVar[int]
    open: ConsumeOpen
    settlements: Settlements
    def __init__(self, open: _Optional[_Union[ConsumeOpen, _Mapping]] = ..., settlements: _Optional[_Union[Settlements, _Mapping]] = ...) -> None: ...

class ConsumeOpen(_message.Message):
    __slots__ = ("queue", "name", "max_backlog", "protocol_version")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MAX_BACKLOG_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    queue: str
    name: str
    max_backlog: int
    protocol_version: int
    def __init__(self, queue: _Optional[str] = ..., name: _Optional[str] = ..., max_backlog: _Optional[int] = ..., protocol_version: _Optional[int] = ...) -> None: ...

class Settlements(_message.Message):
    __slots__ = ("number", "settlements", "leaving")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SETTLEMENTS_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    number: int
    settlements: _containers.RepeatedCompositeFieldContainer[Settlement]
    leaving: bool
    def __init__(self, number: _Optional[int] = ..., settlements: _Optional[_Iterable[_Union[Settlement, _Mapping]]] = ..., leaving: bool = ...) -> None: ...

class Settlement(_message.Message):
    __slots__ = ("source", "epoch", "bounds", "kind", "delay_seconds", "reason")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DELAY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    epoch: int
    bounds: _containers.RepeatedScalarFieldContainer[int]
    kind: SettlementKind
    delay_seconds: float
    reason: str
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., epoch: _Optional[int] = ..., bounds: _Optional[_Iterable[int]] = ..., kind: _Optional[_Union[SettlementKind, str]] = ..., delay_seconds: _Optional[float] = ..., reason: _Optional[str] = ...) -> None: ...

class ConsumeResponse(_message.Message):
    __slots__ = ("lease_seconds", "jobs", "settled_upto")
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SETTLED_UPTO_FIELD_NUMBER: _ClassVar[int]
    lease_seconds: float
    jobs: _containers.RepeatedCompositeFieldContainer[Jobs]
    settled_upto: int
    def __init__(self, lease_seconds: _Optional[float] = ..., jobs: _Optional[_Iterable[_Union[Jobs, _Mapping]]] = ..., settled_upto: _Optional[int] = ...) -> None: ...

class Jobs(_message.Message):
    __slots__ = ("batch", "offsets", "tries", "more")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    batch: bytes
    offsets: _containers.RepeatedScalarFieldContainer[int]
    tries: _containers.RepeatedScalarFieldContainer[int]
    more: bool
    def __init__(self, batch: _Optional[bytes] = ..., offsets: _Optional[_Iterable[int]] = ..., tries: _Optional[_Iterable[int]] = ..., more: bool = ...) -> None: ...

class ShowQueuesRequest(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    def __init__(self, queue: _Optional[str] = ...) -> None: ...

class ShowQueuesResponse(_message.Message):
    __slots__ = ("queues",)
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[QueueStatus]
    def __init__(self, queues: _Optional[_Iterable[_Union[QueueStatus, _Mapping]]] = ...) -> None: ...

class QueueStatus(_message.Message):
    __slots__ = ("name", "topics", "dispatches", "trouble", "ready", "leased", "waiting", "done", "dead", "retried", "consumers", "registers", "full", "repeated", "most_tries", "tries_max", "dead_seconds_ago")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    DISPATCHES_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    RETRIED_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    REGISTERS_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    REPEATED_FIELD_NUMBER: _ClassVar[int]
    MOST_TRIES_FIELD_NUMBER: _ClassVar[int]
    TRIES_MAX_FIELD_NUMBER: _ClassVar[int]
    DEAD_SECONDS_AGO_FIELD_NUMBER: _ClassVar[int]
    name: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    dispatches: bool
    trouble: str
    ready: int
    leased: int
    waiting: int
    done: int
    dead: int
    retried: int
    consumers: _containers.RepeatedCompositeFieldContainer[ConsumerStatus]
    registers: bool
    full: bool
    repeated: int
    most_tries: int
    tries_max: int
    dead_seconds_ago: float
    def __init__(self, name: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., dispatches: bool = ..., trouble: _Optional[str] = ..., ready: _Optional[int] = ..., leased: _Optional[int] = ..., waiting: _Optional[int] = ..., done: _Optional[int] = ..., dead: _Optional[int] = ..., retried: _Optional[int] = ..., consumers: _Optional[_Iterable[_Union[ConsumerStatus, _Mapping]]] = ..., registers: bool = ..., full: bool = ..., repeated: _Optional[int] = ..., most_tries: _Optional[int] = ..., tries_max: _Optional[int] = ..., dead_seconds_ago: _Optional[float] = ...) -> None: ...

class ConsumerStatus(_message.Message):
    __slots__ = ("name", "peer", "max_backlog", "leased")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    MAX_BACKLOG_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    name: str
    peer: str
    max_backlog: int
    leased: int
    def __init__(self, name: _Optional[str] = ..., peer: _Optional[str] = ..., max_backlog: _Optional[int] = ..., leased: _Optional[int] = ...) -> None: ...

class QueueDecisions(_message.Message):
    __slots__ = ("decisions",)
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    decisions: _containers.RepeatedCompositeFieldContainer[QueueDecision]
    def __init__(self, decisions: _Optional[_Iterable[_Union[QueueDecision, _Mapping]]] = ...) -> None: ...

class QueueDecision(_message.Message):
    __slots__ = ("settled", "released", "snapshot")
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    settled: QueueSettled
    released: QueueReleased
    snapshot: QueueSnapshot
    def __init__(self, settled: _Optional[_Union[QueueSettled, _Mapping]] = ..., released: _Optional[_Union[QueueReleased, _Mapping]] = ..., snapshot: _Optional[_Union[QueueSnapshot, _Mapping]] = ...) -> None: ...

class QueueSettled(_message.Message):
    __slots__ = ("source", "epoch", "bounds", "dead")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    epoch: int
    bounds: _containers.RepeatedScalarFieldContainer[int]
    dead: bool
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., epoch: _Optional[int] = ..., bounds: _Optional[_Iterable[int]] = ..., dead: bool = ...) -> None: ...

class QueueReleased(_message.Message):
    __slots__ = ("source", "epoch", "bounds", "tried")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    TRIED_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    epoch: int
    bounds: _containers.RepeatedScalarFieldContainer[int]
    tried: Tried
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., epoch: _Optional[int] = ..., bounds: _Optional[_Iterable[int]] = ..., tried: _Optional[_Union[Tried, _Mapping]] = ...) -> None: ...

class Tried(_message.Message):
    __slots__ = ("count", "due_ns", "given_up", "reason")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    DUE_NS_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    count: int
    due_ns: int
    given_up: bool
    reason: str
    def __init__(self, count: _Optional[int] = ..., due_ns: _Optional[int] = ..., given_up: bool = ..., reason: _Optional[str] = ...) -> None: ...

class QueueSnapshot(_message.Message):
    __slots__ = ("tracks",)
    TRACKS_FIELD_NUMBER: _ClassVar[int]
    tracks: _containers.RepeatedCompositeFieldContainer[QueueTrack]
    def __init__(self, tracks: _Optional[_Iterable[_Union[QueueTrack, _Mapping]]] = ...) -> None: ...

class QueueTrack(_message.Message):
    __slots__ = ("floor", "upto", "outstanding", "ahead", "tried")
    FLOOR_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    TRIED_FIELD_NUMBER: _ClassVar[int]
    floor: _store_pb2.Place
    upto: _store_pb2.Place
    outstanding: _containers.RepeatedCompositeFieldContainer[Outstanding]
    ahead: _containers.RepeatedCompositeFieldContainer[QueueSettled]
    tried: _containers.RepeatedCompositeFieldContainer[QueueReleased]
    def __init__(self, floor: _Optional[_Union[_store_pb2.Place, _Mapping]] = ..., upto: _Optional[_Union[_store_pb2.Place, _Mapping]] = ..., outstanding: _Optional[_Iterable[_Union[Outstanding, _Mapping]]] = ..., ahead: _Optional[_Iterable[_Union[QueueSettled, _Mapping]]] = ..., tried: _Optional[_Iterable[_Union[QueueReleased, _Mapping]]] = ...) -> None: ...

class Outstanding(_message.Message):
    __slots__ = ("epoch", "sequence", "tried")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TRIED_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    sequence: int
    tried: Tried
    def __init__(self, epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., tried: _Optional[_Union[Tried, _Mapping]] = ...) -> None: ...
