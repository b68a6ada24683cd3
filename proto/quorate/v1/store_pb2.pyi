from quorate.v1 import messages_pb2 as _messages_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Poison(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    POISON_UNSPECIFIED: _ClassVar[Poison]
    POISON_MARKED: _ClassVar[Poison]
    POISON_REMOVED: _ClassVar[Poison]

class Owner(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OWNER_UNKNOWN: _ClassVar[Owner]
    OWNER_HEARD: _ClassVar[Owner]
    OWNER_SILENT: _ClassVar[Owner]

class Delivered(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELIVERED_UNSPECIFIED: _ClassVar[Delivered]
    DELIVERED_STABLE: _ClassVar[Delivered]
    DELIVERED_DURABLE: _ClassVar[Delivered]
    DELIVERED_LIVE: _ClassVar[Delivered]

class LeftReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LEFT_REASON_UNSPECIFIED: _ClassVar[LeftReason]
    LEFT_REASON_NO_MATCH: _ClassVar[LeftReason]
    LEFT_REASON_DELETED: _ClassVar[LeftReason]
    LEFT_REASON_EXPIRED: _ClassVar[LeftReason]
    LEFT_REASON_ENDED: _ClassVar[LeftReason]
POISON_UNSPECIFIED: Poison
POISON_MARKED: Poison
POISON_REMOVED: Poison
OWNER_UNKNOWN: Owner
OWNER_HEARD: Owner
OWNER_SILENT: Owner
DELIVERED_UNSPECIFIED: Delivered
DELIVERED_STABLE: Delivered
DELIVERED_DURABLE: Delivered
DELIVERED_LIVE: Delivered
LEFT_REASON_UNSPECIFIED: LeftReason
LEFT_REASON_NO_MATCH: LeftReason
LEFT_REASON_DELETED: LeftReason
LEFT_REASON_EXPIRED: LeftReason
LEFT_REASON_ENDED: LeftReason

class PromiseRequest(_message.Message):
    __slots__ = ("source", "epoch", "reg_id", "instance", "take_over", "protocol_version", "decided_epoch")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REG_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    TAKE_OVER_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    DECIDED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    epoch: int
    reg_id: int
    instance: bytes
    take_over: bool
    protocol_version: int
    decided_epoch: int
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., epoch: _Optional[int] = ..., reg_id: _Optional[int] = ..., instance: _Optional[bytes] = ..., take_over: bool = ..., protocol_version: _Optional[int] = ..., decided_epoch: _Optional[int] = ...) -> None: ...

class PromiseResponse(_message.Message):
    __slots__ = ("reg_id", "incarnation", "limbo", "begun", "held", "stable_upto", "store_name", "limbo_reason", "information", "accepted_losses", "markers", "known", "retained_from", "durability")
    REG_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LIMBO_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    STABLE_UPTO_FIELD_NUMBER: _ClassVar[int]
    STORE_NAME_FIELD_NUMBER: _ClassVar[int]
    LIMBO_REASON_FIELD_NUMBER: _ClassVar[int]
    INFORMATION_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_LOSSES_FIELD_NUMBER: _ClassVar[int]
    MARKERS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    RETAINED_FROM_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    reg_id: int
    incarnation: bytes
    limbo: bool
    begun: _messages_pb2.BeginRecord
    held: _containers.RepeatedCompositeFieldContainer[_messages_pb2.HeldRange]
    stable_upto: int
    store_name: str
    limbo_reason: str
    information: _messages_pb2.SourceInformation
    accepted_losses: _containers.RepeatedCompositeFieldContainer[_messages_pb2.HeldRange]
    markers: _containers.RepeatedCompositeFieldContainer[Marker]
    known: _containers.RepeatedCompositeFieldContainer[StoreReplaced]
    retained_from: int
    durability: _messages_pb2.Durability
    def __init__(self, reg_id: _Optional[int] = ..., incarnation: _Optional[bytes] = ..., limbo: bool = ..., begun: _Optional[_Union[_messages_pb2.BeginRecord, _Mapping]] = ..., held: _Optional[_Iterable[_Union[_messages_pb2.HeldRange, _Mapping]]] = ..., stable_upto: _Optional[int] = ..., store_name: _Optional[str] = ..., limbo_reason: _Optional[str] = ..., information: _Optional[_Union[_messages_pb2.SourceInformation, _Mapping]] = ..., accepted_losses: _Optional[_Iterable[_Union[_messages_pb2.HeldRange, _Mapping]]] = ..., markers: _Optional[_Iterable[_Union[Marker, _Mapping]]] = ..., known: _Optional[_Iterable[_Union[StoreReplaced, _Mapping]]] = ..., retained_from: _Optional[int] = ..., durability: _Optional[_Union[_messages_pb2.Durability, str]] = ...) -> None: ...

class Marker(_message.Message):
    __slots__ = ("sequence", "epoch", "value")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    epoch: int
    value: bytes
    def __init__(self, sequence: _Optional[int] = ..., epoch: _Optional[int] = ..., value: _Optional[bytes] = ...) -> None: ...

class BeginRequest(_message.Message):
    __slots__ = ("source", "begin", "protocol_version", "instance", "accepted_losses", "incarnation")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_LOSSES_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    begin: _messages_pb2.BeginRecord
    protocol_version: int
    instance: bytes
    accepted_losses: _containers.RepeatedCompositeFieldContainer[_messages_pb2.HeldRange]
    incarnation: bytes
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., begin: _Optional[_Union[_messages_pb2.BeginRecord, _Mapping]] = ..., protocol_version: _Optional[int] = ..., instance: _Optional[bytes] = ..., accepted_losses: _Optional[_Iterable[_Union[_messages_pb2.HeldRange, _Mapping]]] = ..., incarnation: _Optional[bytes] = ...) -> None: ...

class BeginResponse(_message.Message):
    __slots__ = ("set_aside", "known")
    SET_ASIDE_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    set_aside: int
    known: _containers.RepeatedCompositeFieldContainer[StoreReplaced]
    def __init__(self, set_aside: _Optional[int] = ..., known: _Optional[_Iterable[_Union[StoreReplaced, _Mapping]]] = ...) -> None: ...

class AppendFrames(_message.Message):
    __slots__ = ("frames",)
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedCompositeFieldContainer[LaneFrame]
    def __init__(self, frames: _Optional[_Iterable[_Union[LaneFrame, _Mapping]]] = ...) -> None: ...

class LaneFrame(_message.Message):
    __slots__ = ("lane", "frame")
    LANE_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    lane: int
    frame: _messages_pb2.Frame
    def __init__(self, lane: _Optional[int] = ..., frame: _Optional[_Union[_messages_pb2.Frame, _Mapping]] = ...) -> None: ...

class AppendResponses(_message.Message):
    __slots__ = ("responses",)
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    responses: _containers.RepeatedCompositeFieldContainer[LaneResponse]
    def __init__(self, responses: _Optional[_Iterable[_Union[LaneResponse, _Mapping]]] = ...) -> None: ...

class LaneResponse(_message.Message):
    __slots__ = ("lane", "response")
    LANE_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    lane: int
    response: AppendResponse
    def __init__(self, lane: _Optional[int] = ..., response: _Optional[_Union[AppendResponse, _Mapping]] = ...) -> None: ...

class AppendResponse(_message.Message):
    __slots__ = ("opened", "durable", "failed", "replaced", "waited_for", "fragment_taken")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    REPLACED_FIELD_NUMBER: _ClassVar[int]
    WAITED_FOR_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_TAKEN_FIELD_NUMBER: _ClassVar[int]
    opened: AppendOpened
    durable: Durable
    failed: _messages_pb2.Failure
    replaced: StoreReplaced
    waited_for: WaitedFor
    fragment_taken: FragmentTaken
    def __init__(self, opened: _Optional[_Union[AppendOpened, _Mapping]] = ..., durable: _Optional[_Union[Durable, _Mapping]] = ..., failed: _Optional[_Union[_messages_pb2.Failure, _Mapping]] = ..., replaced: _Optional[_Union[StoreReplaced, _Mapping]] = ..., waited_for: _Optional[_Union[WaitedFor, _Mapping]] = ..., fragment_taken: _Optional[_Union[FragmentTaken, _Mapping]] = ...) -> None: ...

class FragmentTaken(_message.Message):
    __slots__ = ("sequence", "upto")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    upto: int
    def __init__(self, sequence: _Optional[int] = ..., upto: _Optional[int] = ...) -> None: ...

class WaitedFor(_message.Message):
    __slots__ = ("receivers", "ended", "may_miss")
    RECEIVERS_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    MAY_MISS_FIELD_NUMBER: _ClassVar[int]
    receivers: _containers.RepeatedCompositeFieldContainer[ReceiverStatus]
    ended: _containers.RepeatedCompositeFieldContainer[EndedReceiver]
    may_miss: bool
    def __init__(self, receivers: _Optional[_Iterable[_Union[ReceiverStatus, _Mapping]]] = ..., ended: _Optional[_Iterable[_Union[EndedReceiver, _Mapping]]] = ..., may_miss: bool = ...) -> None: ...

class EndedReceiver(_message.Message):
    __slots__ = ("session_id", "epoch", "settled")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    epoch: int
    settled: bool
    def __init__(self, session_id: _Optional[int] = ..., epoch: _Optional[int] = ..., settled: bool = ...) -> None: ...

class StoreReplaced(_message.Message):
    __slots__ = ("store_name", "incarnation", "former")
    STORE_NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    FORMER_FIELD_NUMBER: _ClassVar[int]
    store_name: str
    incarnation: bytes
    former: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, store_name: _Optional[str] = ..., incarnation: _Optional[bytes] = ..., former: _Optional[_Iterable[bytes]] = ...) -> None: ...

class AppendOpened(_message.Message):
    __slots__ = ("next_sequence", "durability", "known", "waited_for", "message_bytes_max")
    NEXT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    WAITED_FOR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    next_sequence: int
    durability: _messages_pb2.Durability
    known: _containers.RepeatedCompositeFieldContainer[StoreReplaced]
    waited_for: WaitedFor
    message_bytes_max: int
    def __init__(self, next_sequence: _Optional[int] = ..., durability: _Optional[_Union[_messages_pb2.Durability, str]] = ..., known: _Optional[_Iterable[_Union[StoreReplaced, _Mapping]]] = ..., waited_for: _Optional[_Union[WaitedFor, _Mapping]] = ..., message_bytes_max: _Optional[int] = ...) -> None: ...

class Durable(_message.Message):
    __slots__ = ("upto", "stable_awaited")
    UPTO_FIELD_NUMBER: _ClassVar[int]
    STABLE_AWAITED_FIELD_NUMBER: _ClassVar[int]
    upto: int
    stable_awaited: bool
    def __init__(self, upto: _Optional[int] = ..., stable_awaited: bool = ...) -> None: ...

class RegisterReceiverRequest(_message.Message):
    __slots__ = ("source", "session_id", "reg_id", "epoch", "protocol_version", "lifetimes", "instance", "take_over", "not_waited_for", "ended_epoch", "is_open", "asks_only", "application")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REG_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    LIFETIMES_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    TAKE_OVER_FIELD_NUMBER: _ClassVar[int]
    NOT_WAITED_FOR_FIELD_NUMBER: _ClassVar[int]
    ENDED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_OPEN_FIELD_NUMBER: _ClassVar[int]
    ASKS_ONLY_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    session_id: int
    reg_id: int
    epoch: int
    protocol_version: int
    lifetimes: _messages_pb2.Lifetimes
    instance: bytes
    take_over: bool
    not_waited_for: bool
    ended_epoch: int
    is_open: bool
    asks_only: bool
    application: _messages_pb2.Application
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., session_id: _Optional[int] = ..., reg_id: _Optional[int] = ..., epoch: _Optional[int] = ..., protocol_version: _Optional[int] = ..., lifetimes: _Optional[_Union[_messages_pb2.Lifetimes, _Mapping]] = ..., instance: _Optional[bytes] = ..., take_over: bool = ..., not_waited_for: bool = ..., ended_epoch: _Optional[int] = ..., is_open: bool = ..., asks_only: bool = ..., application: _Optional[_Union[_messages_pb2.Application, _Mapping]] = ...) -> None: ...

class RegisterReceiverResponse(_message.Message):
    __slots__ = ("reg_id", "source_reg_id", "incarnation", "limbo", "acknowledged_upto", "low", "high", "stable_upto", "known", "lineage", "retained_from", "durability", "ended_epoch", "known_stores", "epoch", "lifetimes")
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
    RETAINED_FROM_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    ENDED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    KNOWN_STORES_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LIFETIMES_FIELD_NUMBER: _ClassVar[int]
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
    retained_from: int
    durability: _messages_pb2.Durability
    ended_epoch: int
    known_stores: _containers.RepeatedCompositeFieldContainer[StoreReplaced]
    epoch: int
    lifetimes: _messages_pb2.Lifetimes
    def __init__(self, reg_id: _Optional[int] = ..., source_reg_id: _Optional[int] = ..., incarnation: _Optional[bytes] = ..., limbo: bool = ..., acknowledged_upto: _Optional[int] = ..., low: _Optional[int] = ..., high: _Optional[int] = ..., stable_upto: _Optional[int] = ..., known: bool = ..., lineage: _Optional[_Iterable[_Union[_messages_pb2.LineageEntry, _Mapping]]] = ..., retained_from: _Optional[int] = ..., durability: _Optional[_Union[_messages_pb2.Durability, str]] = ..., ended_epoch: _Optional[int] = ..., known_stores: _Optional[_Iterable[_Union[StoreReplaced, _Mapping]]] = ..., epoch: _Optional[int] = ..., lifetimes: _Optional[_Union[_messages_pb2.Lifetimes, _Mapping]] = ...) -> None: ...

class Acknowledgement(_message.Message):
    __slots__ = ("source", "epoch", "upto", "source_epoch", "instance")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    SOURCE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    epoch: int
    upto: int
    source_epoch: int
    instance: bytes
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., epoch: _Optional[int] = ..., upto: _Optional[int] = ..., source_epoch: _Optional[int] = ..., instance: _Optional[bytes] = ...) -> None: ...

class AcknowledgeRequest(_message.Message):
    __slots__ = ("session_id", "acknowledgements")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGEMENTS_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    acknowledgements: _containers.RepeatedCompositeFieldContainer[Acknowledgement]
    def __init__(self, session_id: _Optional[int] = ..., acknowledgements: _Optional[_Iterable[_Union[Acknowledgement, _Mapping]]] = ...) -> None: ...

class AcknowledgeResponse(_message.Message):
    __slots__ = ("refused", "shortened")
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    SHORTENED_FIELD_NUMBER: _ClassVar[int]
    refused: _containers.RepeatedCompositeFieldContainer[RefusedAcknowledgement]
    shortened: _containers.RepeatedCompositeFieldContainer[Acknowledgement]
    def __init__(self, refused: _Optional[_Iterable[_Union[RefusedAcknowledgement, _Mapping]]] = ..., shortened: _Optional[_Iterable[_Union[Acknowledgement, _Mapping]]] = ...) -> None: ...

class RefusedAcknowledgement(_message.Message):
    __slots__ = ("source", "failure")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    failure: _messages_pb2.Failure
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., failure: _Optional[_Union[_messages_pb2.Failure, _Mapping]] = ...) -> None: ...

class BundleRequest(_message.Message):
    __slots__ = ("protocol_version", "calls", "given_up")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    calls: _containers.RepeatedCompositeFieldContainer[BundledCall]
    given_up: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, protocol_version: _Optional[int] = ..., calls: _Optional[_Iterable[_Union[BundledCall, _Mapping]]] = ..., given_up: _Optional[_Iterable[int]] = ...) -> None: ...

class BundledCall(_message.Message):
    __slots__ = ("id", "register_receiver", "acknowledge", "watch", "promise", "begin")
    ID_FIELD_NUMBER: _ClassVar[int]
    REGISTER_RECEIVER_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_FIELD_NUMBER: _ClassVar[int]
    WATCH_FIELD_NUMBER: _ClassVar[int]
    PROMISE_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    id: int
    register_receiver: RegisterReceiverRequest
    acknowledge: AcknowledgeRequest
    watch: WatchRequest
    promise: PromiseRequest
    begin: BeginRequest
    def __init__(self, id: _Optional[int] = ..., register_receiver: _Optional[_Union[RegisterReceiverRequest, _Mapping]] = ..., acknowledge: _Optional[_Union[AcknowledgeRequest, _Mapping]] = ..., watch: _Optional[_Union[WatchRequest, _Mapping]] = ..., promise: _Optional[_Union[PromiseRequest, _Mapping]] = ..., begin: _Optional[_Union[BeginRequest, _Mapping]] = ...) -> None: ...

class BundleResponse(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[BundledAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[BundledAnswer, _Mapping]]] = ...) -> None: ...

class BundledAnswer(_message.Message):
    __slots__ = ("id", "failure", "register_receiver", "acknowledge", "watch", "promise", "begin")
    ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    REGISTER_RECEIVER_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_FIELD_NUMBER: _ClassVar[int]
    WATCH_FIELD_NUMBER: _ClassVar[int]
    PROMISE_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    id: int
    failure: _messages_pb2.Failure
    register_receiver: RegisterReceiverResponse
    acknowledge: AcknowledgeResponse
    watch: WatchResponse
    promise: PromiseResponse
    begin: BeginResponse
    def __init__(self, id: _Optional[int] = ..., failure: _Optional[_Union[_messages_pb2.Failure, _Mapping]] = ..., register_receiver: _Optional[_Union[RegisterReceiverResponse, _Mapping]] = ..., acknowledge: _Optional[_Union[AcknowledgeResponse, _Mapping]] = ..., watch: _Optional[_Union[WatchResponse, _Mapping]] = ..., promise: _Optional[_Union[PromiseResponse, _Mapping]] = ..., begin: _Optional[_Union[BeginResponse, _Mapping]] = ...) -> None: ...

class LocateRequest(_message.Message):
    __slots__ = ("source", "time_ns", "protocol_version")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    time_ns: int
    protocol_version: int
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., time_ns: _Optional[int] = ..., protocol_version: _Optional[int] = ...) -> None: ...

class LocateResponse(_message.Message):
    __slots__ = ("sequence",)
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    def __init__(self, sequence: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("information", "live", "proxy", "next_sequence", "begun_epoch")
    INFORMATION_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    PROXY_FIELD_NUMBER: _ClassVar[int]
    NEXT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    BEGUN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    information: _messages_pb2.SourceInformation
    live: bool
    proxy: str
    next_sequence: int
    begun_epoch: int
    def __init__(self, information: _Optional[_Union[_messages_pb2.SourceInformation, _Mapping]] = ..., live: bool = ..., proxy: _Optional[str] = ..., next_sequence: _Optional[int] = ..., begun_epoch: _Optional[int] = ...) -> None: ...

class SnapshotEnd(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topics: _Optional[_Iterable[str]] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("protocol_version", "topic_pattern", "subscriptions_max")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_PATTERN_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_MAX_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    topic_pattern: str
    subscriptions_max: int
    def __init__(self, protocol_version: _Optional[int] = ..., topic_pattern: _Optional[str] = ..., subscriptions_max: _Optional[int] = ...) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("store_name", "address", "version", "incarnation", "limbo", "uptime_seconds", "durability", "data_directory", "disk_bytes", "disk_free_bytes", "disk_free_warning_bytes", "disk_free_min_bytes", "position", "messages", "bytes", "syncs", "sync_seconds", "rejected", "sources", "limbo_reason", "starts", "peers", "repair", "accepted_losses", "retention", "source_count", "clock_ns", "certificate_ends", "shared_settings", "denied", "denied_seconds_ago", "subscription_count", "undecoded", "capacity", "subscriptions")
    class SharedSettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
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
    DISK_FREE_WARNING_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_MIN_BYTES_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SYNCS_FIELD_NUMBER: _ClassVar[int]
    SYNC_SECONDS_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    LIMBO_REASON_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    REPAIR_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_LOSSES_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_COUNT_FIELD_NUMBER: _ClassVar[int]
    CLOCK_NS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_ENDS_FIELD_NUMBER: _ClassVar[int]
    SHARED_SETTINGS_FIELD_NUMBER: _ClassVar[int]
    DENIED_FIELD_NUMBER: _ClassVar[int]
    DENIED_SECONDS_AGO_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNDECODED_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
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
    disk_free_warning_bytes: int
    disk_free_min_bytes: int
    position: int
    messages: int
    bytes: int
    syncs: int
    sync_seconds: float
    rejected: int
    sources: _containers.RepeatedCompositeFieldContainer[SourceStatus]
    limbo_reason: str
    starts: int
    peers: _containers.RepeatedCompositeFieldContainer[PeerStatus]
    repair: RepairStatus
    accepted_losses: _containers.RepeatedCompositeFieldContainer[LossRecord]
    retention: RetentionStatus
    source_count: int
    clock_ns: int
    certificate_ends: float
    shared_settings: _containers.ScalarMap[str, str]
    denied: int
    denied_seconds_ago: float
    subscription_count: int
    undecoded: int
    capacity: CapacityStatus
    subscriptions: _containers.RepeatedCompositeFieldContainer[SubscriptionStatus]
    def __init__(self, store_name: _Optional[str] = ..., address: _Optional[str] = ..., version: _Optional[str] = ..., incarnation: _Optional[bytes] = ..., limbo: bool = ..., uptime_seconds: _Optional[float] = ..., durability: _Optional[_Union[_messages_pb2.Durability, str]] = ..., data_directory: _Optional[str] = ..., disk_bytes: _Optional[int] = ..., disk_free_bytes: _Optional[int] = ..., disk_free_warning_bytes: _Optional[int] = ..., disk_free_min_bytes: _Optional[int] = ..., position: _Optional[int] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ..., syncs: _Optional[int] = ..., sync_seconds: _Optional[float] = ..., rejected: _Optional[int] = ..., sources: _Optional[_Iterable[_Union[SourceStatus, _Mapping]]] = ..., limbo_reason: _Optional[str] = ..., starts: _Optional[int] = ..., peers: _Optional[_Iterable[_Union[PeerStatus, _Mapping]]] = ..., repair: _Optional[_Union[RepairStatus, _Mapping]] = ..., accepted_losses: _Optional[_Iterable[_Union[LossRecord, _Mapping]]] = ..., retention: _Optional[_Union[RetentionStatus, _Mapping]] = ..., source_count: _Optional[int] = ..., clock_ns: _Optional[int] = ..., certificate_ends: _Optional[float] = ..., shared_settings: _Optional[_Mapping[str, str]] = ..., denied: _Optional[int] = ..., denied_seconds_ago: _Optional[float] = ..., subscription_count: _Optional[int] = ..., undecoded: _Optional[int] = ..., capacity: _Optional[_Union[CapacityStatus, _Mapping]] = ..., subscriptions: _Optional[_Iterable[_Union[SubscriptionStatus, _Mapping]]] = ...) -> None: ...

class CapacityStatus(_message.Message):
    __slots__ = ("bytes_max", "bytes", "sources_max", "receivers_max", "receivers", "refused", "kept_because")
    BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SOURCES_MAX_FIELD_NUMBER: _ClassVar[int]
    RECEIVERS_MAX_FIELD_NUMBER: _ClassVar[int]
    RECEIVERS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    KEPT_BECAUSE_FIELD_NUMBER: _ClassVar[int]
    bytes_max: int
    bytes: int
    sources_max: int
    receivers_max: int
    receivers: int
    refused: int
    kept_because: str
    def __init__(self, bytes_max: _Optional[int] = ..., bytes: _Optional[int] = ..., sources_max: _Optional[int] = ..., receivers_max: _Optional[int] = ..., receivers: _Optional[int] = ..., refused: _Optional[int] = ..., kept_because: _Optional[str] = ...) -> None: ...

class JournalRequest(_message.Message):
    __slots__ = ("protocol_version", "topic_pattern", "subscriptions_max")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_PATTERN_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_MAX_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    topic_pattern: str
    subscriptions_max: int
    def __init__(self, protocol_version: _Optional[int] = ..., topic_pattern: _Optional[str] = ..., subscriptions_max: _Optional[int] = ...) -> None: ...

class JournalResponse(_message.Message):
    __slots__ = ("store_name", "disk_bytes", "sources", "subscriptions", "subscription_count", "subscription_bound", "subscriptions_left_out")
    STORE_NAME_FIELD_NUMBER: _ClassVar[int]
    DISK_BYTES_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_COUNT_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_BOUND_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    store_name: str
    disk_bytes: int
    sources: _containers.RepeatedCompositeFieldContainer[JournalSource]
    subscriptions: _containers.RepeatedCompositeFieldContainer[SubscriptionStatus]
    subscription_count: int
    subscription_bound: int
    subscriptions_left_out: int
    def __init__(self, store_name: _Optional[str] = ..., disk_bytes: _Optional[int] = ..., sources: _Optional[_Iterable[_Union[JournalSource, _Mapping]]] = ..., subscriptions: _Optional[_Iterable[_Union[SubscriptionStatus, _Mapping]]] = ..., subscription_count: _Optional[int] = ..., subscription_bound: _Optional[int] = ..., subscriptions_left_out: _Optional[int] = ...) -> None: ...

class JournalSource(_message.Message):
    __slots__ = ("source", "first", "last", "messages", "first_ns", "last_ns", "bytes", "compressed", "archived_upto", "kept_because")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    FIRST_NS_FIELD_NUMBER: _ClassVar[int]
    LAST_NS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    COMPRESSED_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_UPTO_FIELD_NUMBER: _ClassVar[int]
    KEPT_BECAUSE_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    first: int
    last: int
    messages: int
    first_ns: int
    last_ns: int
    bytes: int
    compressed: bool
    archived_upto: int
    kept_because: str
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., messages: _Optional[int] = ..., first_ns: _Optional[int] = ..., last_ns: _Optional[int] = ..., bytes: _Optional[int] = ..., compressed: bool = ..., archived_upto: _Optional[int] = ..., kept_because: _Optional[str] = ...) -> None: ...

class SubscriptionStatus(_message.Message):
    __slots__ = ("client", "topic", "pattern", "delivered", "where", "seconds", "behind", "application", "undecoded", "read", "number")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    UNDECODED_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    client: str
    topic: str
    pattern: str
    delivered: Delivered
    where: str
    seconds: float
    behind: int
    application: _messages_pb2.Application
    undecoded: int
    read: int
    number: int
    def __init__(self, client: _Optional[str] = ..., topic: _Optional[str] = ..., pattern: _Optional[str] = ..., delivered: _Optional[_Union[Delivered, str]] = ..., where: _Optional[str] = ..., seconds: _Optional[float] = ..., behind: _Optional[int] = ..., application: _Optional[_Union[_messages_pb2.Application, _Mapping]] = ..., undecoded: _Optional[int] = ..., read: _Optional[int] = ..., number: _Optional[int] = ...) -> None: ...

class RetentionStatus(_message.Message):
    __slots__ = ("messages", "batches", "bytes", "held_up")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    HELD_UP_FIELD_NUMBER: _ClassVar[int]
    messages: int
    batches: int
    bytes: int
    held_up: str
    def __init__(self, messages: _Optional[int] = ..., batches: _Optional[int] = ..., bytes: _Optional[int] = ..., held_up: _Optional[str] = ...) -> None: ...

class LossRecord(_message.Message):
    __slots__ = ("source", "first", "last", "reason", "time_ns", "lineage", "kept", "poison")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    POISON_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    first: int
    last: int
    reason: str
    time_ns: int
    lineage: _containers.RepeatedCompositeFieldContainer[_messages_pb2.LineageEntry]
    kept: str
    poison: Poison
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., reason: _Optional[str] = ..., time_ns: _Optional[int] = ..., lineage: _Optional[_Iterable[_Union[_messages_pb2.LineageEntry, _Mapping]]] = ..., kept: _Optional[str] = ..., poison: _Optional[_Union[Poison, str]] = ...) -> None: ...

class PeerStatus(_message.Message):
    __slots__ = ("address", "store_name", "incarnation", "reachable", "limbo", "heard_seconds_ago")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STORE_NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    REACHABLE_FIELD_NUMBER: _ClassVar[int]
    LIMBO_FIELD_NUMBER: _ClassVar[int]
    HEARD_SECONDS_AGO_FIELD_NUMBER: _ClassVar[int]
    address: str
    store_name: str
    incarnation: bytes
    reachable: bool
    limbo: bool
    heard_seconds_ago: float
    def __init__(self, address: _Optional[str] = ..., store_name: _Optional[str] = ..., incarnation: _Optional[bytes] = ..., reachable: bool = ..., limbo: bool = ..., heard_seconds_ago: _Optional[float] = ...) -> None: ...

class RepairStatus(_message.Message):
    __slots__ = ("messages", "bytes", "bytes_per_second", "lacking", "compared", "divergent", "now", "scrub")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    LACKING_FIELD_NUMBER: _ClassVar[int]
    COMPARED_FIELD_NUMBER: _ClassVar[int]
    DIVERGENT_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    SCRUB_FIELD_NUMBER: _ClassVar[int]
    messages: int
    bytes: int
    bytes_per_second: float
    lacking: int
    compared: int
    divergent: int
    now: str
    scrub: ScrubStatus
    def __init__(self, messages: _Optional[int] = ..., bytes: _Optional[int] = ..., bytes_per_second: _Optional[float] = ..., lacking: _Optional[int] = ..., compared: _Optional[int] = ..., divergent: _Optional[int] = ..., now: _Optional[str] = ..., scrub: _Optional[_Union[ScrubStatus, _Mapping]] = ...) -> None: ...

class ScrubStatus(_message.Message):
    __slots__ = ("messages", "bytes", "part", "passes", "unreadable")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    PASSES_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    messages: int
    bytes: int
    part: float
    passes: int
    unreadable: int
    def __init__(self, messages: _Optional[int] = ..., bytes: _Optional[int] = ..., part: _Optional[float] = ..., passes: _Optional[int] = ..., unreadable: _Optional[int] = ...) -> None: ...

class SourceStatus(_message.Message):
    __slots__ = ("information", "reg_id", "promised_epoch", "begun", "live", "held", "holes", "stable_upto", "set_aside", "receivers", "limbo", "limbo_reason", "unreadable", "accepted_losses", "proxy", "clean", "inactive_seconds", "retained_from", "archived_upto", "journal_bytes", "released_bytes", "kept_because", "durability", "ended_receivers", "may_miss_receivers", "conflicts", "rows", "application", "poisoned")
    INFORMATION_FIELD_NUMBER: _ClassVar[int]
    REG_ID_FIELD_NUMBER: _ClassVar[int]
    PROMISED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    HOLES_FIELD_NUMBER: _ClassVar[int]
    STABLE_UPTO_FIELD_NUMBER: _ClassVar[int]
    SET_ASIDE_FIELD_NUMBER: _ClassVar[int]
    RECEIVERS_FIELD_NUMBER: _ClassVar[int]
    LIMBO_FIELD_NUMBER: _ClassVar[int]
    LIMBO_REASON_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_LOSSES_FIELD_NUMBER: _ClassVar[int]
    PROXY_FIELD_NUMBER: _ClassVar[int]
    CLEAN_FIELD_NUMBER: _ClassVar[int]
    INACTIVE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    RETAINED_FROM_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_UPTO_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    RELEASED_BYTES_FIELD_NUMBER: _ClassVar[int]
    KEPT_BECAUSE_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    ENDED_RECEIVERS_FIELD_NUMBER: _ClassVar[int]
    MAY_MISS_RECEIVERS_FIELD_NUMBER: _ClassVar[int]
    CONFLICTS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    POISONED_FIELD_NUMBER: _ClassVar[int]
    information: _messages_pb2.SourceInformation
    reg_id: int
    promised_epoch: int
    begun: _messages_pb2.BeginRecord
    live: bool
    held: _containers.RepeatedCompositeFieldContainer[_messages_pb2.HeldRange]
    holes: _containers.RepeatedCompositeFieldContainer[_messages_pb2.HeldRange]
    stable_upto: int
    set_aside: int
    receivers: _containers.RepeatedCompositeFieldContainer[ReceiverStatus]
    limbo: bool
    limbo_reason: str
    unreadable: _containers.RepeatedCompositeFieldContainer[_messages_pb2.HeldRange]
    accepted_losses: _containers.RepeatedCompositeFieldContainer[_messages_pb2.HeldRange]
    proxy: str
    clean: bool
    inactive_seconds: float
    retained_from: int
    archived_upto: int
    journal_bytes: int
    released_bytes: int
    kept_because: str
    durability: _messages_pb2.Durability
    ended_receivers: _containers.RepeatedCompositeFieldContainer[EndedReceiver]
    may_miss_receivers: bool
    conflicts: _containers.RepeatedCompositeFieldContainer[Conflict]
    rows: RowsStatus
    application: _messages_pb2.Application
    poisoned: _containers.RepeatedCompositeFieldContainer[_messages_pb2.HeldRange]
    def __init__(self, information: _Optional[_Union[_messages_pb2.SourceInformation, _Mapping]] = ..., reg_id: _Optional[int] = ..., promised_epoch: _Optional[int] = ..., begun: _Optional[_Union[_messages_pb2.BeginRecord, _Mapping]] = ..., live: bool = ..., held: _Optional[_Iterable[_Union[_messages_pb2.HeldRange, _Mapping]]] = ..., holes: _Optional[_Iterable[_Union[_messages_pb2.HeldRange, _Mapping]]] = ..., stable_upto: _Optional[int] = ..., set_aside: _Optional[int] = ..., receivers: _Optional[_Iterable[_Union[ReceiverStatus, _Mapping]]] = ..., limbo: bool = ..., limbo_reason: _Optional[str] = ..., unreadable: _Optional[_Iterable[_Union[_messages_pb2.HeldRange, _Mapping]]] = ..., accepted_losses: _Optional[_Iterable[_Union[_messages_pb2.HeldRange, _Mapping]]] = ..., proxy: _Optional[str] = ..., clean: bool = ..., inactive_seconds: _Optional[float] = ..., retained_from: _Optional[int] = ..., archived_upto: _Optional[int] = ..., journal_bytes: _Optional[int] = ..., released_bytes: _Optional[int] = ..., kept_because: _Optional[str] = ..., durability: _Optional[_Union[_messages_pb2.Durability, str]] = ..., ended_receivers: _Optional[_Iterable[_Union[EndedReceiver, _Mapping]]] = ..., may_miss_receivers: bool = ..., conflicts: _Optional[_Iterable[_Union[Conflict, _Mapping]]] = ..., rows: _Optional[_Union[RowsStatus, _Mapping]] = ..., application: _Optional[_Union[_messages_pb2.Application, _Mapping]] = ..., poisoned: _Optional[_Iterable[_Union[_messages_pb2.HeldRange, _Mapping]]] = ...) -> None: ...

class Conflict(_message.Message):
    __slots__ = ("other", "first", "last")
    OTHER_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    other: str
    first: int
    last: int
    def __init__(self, other: _Optional[str] = ..., first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class ReceiverStatus(_message.Message):
    __slots__ = ("session_id", "reg_id", "epoch", "acknowledged_upto", "not_waited_for", "confirmed_epoch", "application", "inactive_seconds", "instance")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REG_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_UPTO_FIELD_NUMBER: _ClassVar[int]
    NOT_WAITED_FOR_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    INACTIVE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    reg_id: int
    epoch: int
    acknowledged_upto: int
    not_waited_for: bool
    confirmed_epoch: int
    application: _messages_pb2.Application
    inactive_seconds: float
    instance: bytes
    def __init__(self, session_id: _Optional[int] = ..., reg_id: _Optional[int] = ..., epoch: _Optional[int] = ..., acknowledged_upto: _Optional[int] = ..., not_waited_for: bool = ..., confirmed_epoch: _Optional[int] = ..., application: _Optional[_Union[_messages_pb2.Application, _Mapping]] = ..., inactive_seconds: _Optional[float] = ..., instance: _Optional[bytes] = ...) -> None: ...

class DeregisterRequest(_message.Message):
    __slots__ = ("source", "receiver_session_id", "epoch", "protocol_version", "unused_promise_to", "instance", "membership", "incarnation", "decided_epoch", "expired", "durable")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    UNUSED_PROMISE_TO_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    MEMBERSHIP_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    DECIDED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    receiver_session_id: int
    epoch: int
    protocol_version: int
    unused_promise_to: bytes
    instance: bytes
    membership: _messages_pb2.Membership
    incarnation: bytes
    decided_epoch: int
    expired: bool
    durable: bool
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., receiver_session_id: _Optional[int] = ..., epoch: _Optional[int] = ..., protocol_version: _Optional[int] = ..., unused_promise_to: _Optional[bytes] = ..., instance: _Optional[bytes] = ..., membership: _Optional[_Union[_messages_pb2.Membership, _Mapping]] = ..., incarnation: _Optional[bytes] = ..., decided_epoch: _Optional[int] = ..., expired: bool = ..., durable: bool = ...) -> None: ...

class DeregisterResponse(_message.Message):
    __slots__ = ("reg_id", "last_sequence", "incarnation", "known_stores", "limbo", "limbo_reason", "begun", "information")
    REG_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    KNOWN_STORES_FIELD_NUMBER: _ClassVar[int]
    LIMBO_FIELD_NUMBER: _ClassVar[int]
    LIMBO_REASON_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    INFORMATION_FIELD_NUMBER: _ClassVar[int]
    reg_id: int
    last_sequence: int
    incarnation: bytes
    known_stores: _containers.RepeatedCompositeFieldContainer[StoreReplaced]
    limbo: bool
    limbo_reason: str
    begun: _messages_pb2.BeginRecord
    information: _messages_pb2.SourceInformation
    def __init__(self, reg_id: _Optional[int] = ..., last_sequence: _Optional[int] = ..., incarnation: _Optional[bytes] = ..., known_stores: _Optional[_Iterable[_Union[StoreReplaced, _Mapping]]] = ..., limbo: bool = ..., limbo_reason: _Optional[str] = ..., begun: _Optional[_Union[_messages_pb2.BeginRecord, _Mapping]] = ..., information: _Optional[_Union[_messages_pb2.SourceInformation, _Mapping]] = ...) -> None: ...

class Greeting(_message.Message):
    __slots__ = ("store_name", "address", "incarnation", "starts", "commits", "former")
    STORE_NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    FORMER_FIELD_NUMBER: _ClassVar[int]
    store_name: str
    address: str
    incarnation: bytes
    starts: int
    commits: int
    former: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, store_name: _Optional[str] = ..., address: _Optional[str] = ..., incarnation: _Optional[bytes] = ..., starts: _Optional[int] = ..., commits: _Optional[int] = ..., former: _Optional[_Iterable[bytes]] = ...) -> None: ...

class InventoryRequest(_message.Message):
    __slots__ = ("greeting", "source", "protocol_version", "without_sources", "topic_pattern", "archived", "begin", "before", "since")
    GREETING_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_SOURCES_FIELD_NUMBER: _ClassVar[int]
    TOPIC_PATTERN_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    greeting: Greeting
    source: _messages_pb2.SourceName
    protocol_version: int
    without_sources: bool
    topic_pattern: str
    archived: _containers.RepeatedCompositeFieldContainer[ArchivedPlace]
    begin: _messages_pb2.SourceName
    before: _messages_pb2.SourceName
    since: Moment
    def __init__(self, greeting: _Optional[_Union[Greeting, _Mapping]] = ..., source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., protocol_version: _Optional[int] = ..., without_sources: bool = ..., topic_pattern: _Optional[str] = ..., archived: _Optional[_Iterable[_Union[ArchivedPlace, _Mapping]]] = ..., begin: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., before: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., since: _Optional[_Union[Moment, _Mapping]] = ...) -> None: ...

class Moment(_message.Message):
    __slots__ = ("run", "changes")
    RUN_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    run: bytes
    changes: int
    def __init__(self, run: _Optional[bytes] = ..., changes: _Optional[int] = ...) -> None: ...

class ArchivedPlace(_message.Message):
    __slots__ = ("source", "upto", "epoch")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    upto: int
    epoch: int
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., upto: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class InventoryResponse(_message.Message):
    __slots__ = ("store", "sources", "gone")
    STORE_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    store: StoreInventory
    sources: _containers.RepeatedCompositeFieldContainer[SourceInventory]
    gone: _containers.RepeatedCompositeFieldContainer[_messages_pb2.SourceName]
    def __init__(self, store: _Optional[_Union[StoreInventory, _Mapping]] = ..., sources: _Optional[_Iterable[_Union[SourceInventory, _Mapping]]] = ..., gone: _Optional[_Iterable[_Union[_messages_pb2.SourceName, _Mapping]]] = ...) -> None: ...

class StoreInventory(_message.Message):
    __slots__ = ("store", "limbo", "blank", "founders", "remembered", "known", "moment", "changes_only")
    STORE_FIELD_NUMBER: _ClassVar[int]
    LIMBO_FIELD_NUMBER: _ClassVar[int]
    BLANK_FIELD_NUMBER: _ClassVar[int]
    FOUNDERS_FIELD_NUMBER: _ClassVar[int]
    REMEMBERED_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    MOMENT_FIELD_NUMBER: _ClassVar[int]
    CHANGES_ONLY_FIELD_NUMBER: _ClassVar[int]
    store: Greeting
    limbo: bool
    blank: bool
    founders: _containers.RepeatedCompositeFieldContainer[Greeting]
    remembered: Greeting
    known: _containers.RepeatedCompositeFieldContainer[Greeting]
    moment: Moment
    changes_only: bool
    def __init__(self, store: _Optional[_Union[Greeting, _Mapping]] = ..., limbo: bool = ..., blank: bool = ..., founders: _Optional[_Iterable[_Union[Greeting, _Mapping]]] = ..., remembered: _Optional[_Union[Greeting, _Mapping]] = ..., known: _Optional[_Iterable[_Union[Greeting, _Mapping]]] = ..., moment: _Optional[_Union[Moment, _Mapping]] = ..., changes_only: bool = ...) -> None: ...

class SourceInventory(_message.Message):
    __slots__ = ("source", "promised_epoch", "promised_to", "begun", "held", "stable_upto", "limbo", "live", "clean", "information", "receivers", "accepted_losses", "reg_id", "settled", "proxy", "retained_from", "markers", "durability", "ended_receivers", "may_miss_receivers", "spent_receiver_epoch", "journal_bytes", "finished", "poison", "archived_upto", "owner")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PROMISED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROMISED_TO_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    STABLE_UPTO_FIELD_NUMBER: _ClassVar[int]
    LIMBO_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    CLEAN_FIELD_NUMBER: _ClassVar[int]
    INFORMATION_FIELD_NUMBER: _ClassVar[int]
    RECEIVERS_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_LOSSES_FIELD_NUMBER: _ClassVar[int]
    REG_ID_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    PROXY_FIELD_NUMBER: _ClassVar[int]
    RETAINED_FROM_FIELD_NUMBER: _ClassVar[int]
    MARKERS_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    ENDED_RECEIVERS_FIELD_NUMBER: _ClassVar[int]
    MAY_MISS_RECEIVERS_FIELD_NUMBER: _ClassVar[int]
    SPENT_RECEIVER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    POISON_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_UPTO_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    promised_epoch: int
    promised_to: bytes
    begun: _messages_pb2.BeginRecord
    held: _containers.RepeatedCompositeFieldContainer[_messages_pb2.HeldRange]
    stable_upto: int
    limbo: bool
    live: bool
    clean: bool
    information: _messages_pb2.SourceInformation
    receivers: _containers.RepeatedCompositeFieldContainer[ReceiverStatus]
    accepted_losses: _containers.RepeatedCompositeFieldContainer[_messages_pb2.HeldRange]
    reg_id: int
    settled: bool
    proxy: bool
    retained_from: int
    markers: _containers.RepeatedCompositeFieldContainer[Marker]
    durability: _messages_pb2.Durability
    ended_receivers: _containers.RepeatedCompositeFieldContainer[EndedReceiver]
    may_miss_receivers: bool
    spent_receiver_epoch: int
    journal_bytes: int
    finished: bool
    poison: _containers.RepeatedCompositeFieldContainer[LossRecord]
    archived_upto: int
    owner: Owner
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., promised_epoch: _Optional[int] = ..., promised_to: _Optional[bytes] = ..., begun: _Optional[_Union[_messages_pb2.BeginRecord, _Mapping]] = ..., held: _Optional[_Iterable[_Union[_messages_pb2.HeldRange, _Mapping]]] = ..., stable_upto: _Optional[int] = ..., limbo: bool = ..., live: bool = ..., clean: bool = ..., information: _Optional[_Union[_messages_pb2.SourceInformation, _Mapping]] = ..., receivers: _Optional[_Iterable[_Union[ReceiverStatus, _Mapping]]] = ..., accepted_losses: _Optional[_Iterable[_Union[_messages_pb2.HeldRange, _Mapping]]] = ..., reg_id: _Optional[int] = ..., settled: bool = ..., proxy: bool = ..., retained_from: _Optional[int] = ..., markers: _Optional[_Iterable[_Union[Marker, _Mapping]]] = ..., durability: _Optional[_Union[_messages_pb2.Durability, str]] = ..., ended_receivers: _Optional[_Iterable[_Union[EndedReceiver, _Mapping]]] = ..., may_miss_receivers: bool = ..., spent_receiver_epoch: _Optional[int] = ..., journal_bytes: _Optional[int] = ..., finished: bool = ..., poison: _Optional[_Iterable[_Union[LossRecord, _Mapping]]] = ..., archived_upto: _Optional[int] = ..., owner: _Optional[_Union[Owner, str]] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("protocol_version", "topic_pattern", "before_ns", "unread_too")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_PATTERN_FIELD_NUMBER: _ClassVar[int]
    BEFORE_NS_FIELD_NUMBER: _ClassVar[int]
    UNREAD_TOO_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    topic_pattern: str
    before_ns: int
    unread_too: bool
    def __init__(self, protocol_version: _Optional[int] = ..., topic_pattern: _Optional[str] = ..., before_ns: _Optional[int] = ..., unread_too: bool = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ("source", "messages", "bytes", "retained_from", "kept_because")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    RETAINED_FROM_FIELD_NUMBER: _ClassVar[int]
    KEPT_BECAUSE_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    messages: int
    bytes: int
    retained_from: int
    kept_because: str
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ..., retained_from: _Optional[int] = ..., kept_because: _Optional[str] = ...) -> None: ...

class ArchivedRequest(_message.Message):
    __slots__ = ("sources", "protocol_version")
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    sources: _containers.RepeatedCompositeFieldContainer[ArchivedSource]
    protocol_version: int
    def __init__(self, sources: _Optional[_Iterable[_Union[ArchivedSource, _Mapping]]] = ..., protocol_version: _Optional[int] = ...) -> None: ...

class ArchivedSource(_message.Message):
    __slots__ = ("source", "upto")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    upto: int
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., upto: _Optional[int] = ...) -> None: ...

class ArchivedResponse(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[ArchivedAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[ArchivedAnswer, _Mapping]]] = ...) -> None: ...

class ArchivedAnswer(_message.Message):
    __slots__ = ("archived_upto", "refused")
    ARCHIVED_UPTO_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    archived_upto: int
    refused: str
    def __init__(self, archived_upto: _Optional[int] = ..., refused: _Optional[str] = ...) -> None: ...

class DigestRequest(_message.Message):
    __slots__ = ("source", "first", "last", "block", "protocol_version")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    first: int
    last: int
    block: int
    protocol_version: int
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., block: _Optional[int] = ..., protocol_version: _Optional[int] = ...) -> None: ...

class DigestResponse(_message.Message):
    __slots__ = ("blocks",)
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    blocks: _containers.RepeatedCompositeFieldContainer[BlockDigest]
    def __init__(self, blocks: _Optional[_Iterable[_Union[BlockDigest, _Mapping]]] = ...) -> None: ...

class BlockDigest(_message.Message):
    __slots__ = ("first", "last", "held", "digest")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    held: int
    digest: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ..., held: _Optional[int] = ..., digest: _Optional[int] = ...) -> None: ...

class RepairRequest(_message.Message):
    __slots__ = ("source", "thorough", "protocol_version")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    THOROUGH_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    thorough: bool
    protocol_version: int
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., thorough: bool = ..., protocol_version: _Optional[int] = ...) -> None: ...

class RepairProgress(_message.Message):
    __slots__ = ("source", "filled_messages", "filled_bytes", "lacking", "divergent", "verdict", "complete", "checked_messages")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FILLED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    FILLED_BYTES_FIELD_NUMBER: _ClassVar[int]
    LACKING_FIELD_NUMBER: _ClassVar[int]
    DIVERGENT_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    CHECKED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    filled_messages: int
    filled_bytes: int
    lacking: int
    divergent: int
    verdict: str
    complete: bool
    checked_messages: int
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., filled_messages: _Optional[int] = ..., filled_bytes: _Optional[int] = ..., lacking: _Optional[int] = ..., divergent: _Optional[int] = ..., verdict: _Optional[str] = ..., complete: bool = ..., checked_messages: _Optional[int] = ...) -> None: ...

class SettleConflictRequest(_message.Message):
    __slots__ = ("source", "keep", "ranges", "reason", "protocol_version")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    keep: str
    ranges: _containers.RepeatedCompositeFieldContainer[_messages_pb2.HeldRange]
    reason: str
    protocol_version: int
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., keep: _Optional[str] = ..., ranges: _Optional[_Iterable[_Union[_messages_pb2.HeldRange, _Mapping]]] = ..., reason: _Optional[str] = ..., protocol_version: _Optional[int] = ...) -> None: ...

class SettleConflictResponse(_message.Message):
    __slots__ = ("record", "set_aside")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    SET_ASIDE_FIELD_NUMBER: _ClassVar[int]
    record: str
    set_aside: int
    def __init__(self, record: _Optional[str] = ..., set_aside: _Optional[int] = ...) -> None: ...

class AcceptLossRequest(_message.Message):
    __slots__ = ("source", "first", "last", "reason", "protocol_version", "poison", "time_ns")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    POISON_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    first: int
    last: int
    reason: str
    protocol_version: int
    poison: Poison
    time_ns: int
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., reason: _Optional[str] = ..., protocol_version: _Optional[int] = ..., poison: _Optional[_Union[Poison, str]] = ..., time_ns: _Optional[int] = ...) -> None: ...

class AcceptLossResponse(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, records: _Optional[_Iterable[str]] = ...) -> None: ...

class BackupRequest(_message.Message):
    __slots__ = ("protocol_version",)
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    def __init__(self, protocol_version: _Optional[int] = ...) -> None: ...

class BackupResponse(_message.Message):
    __slots__ = ("opened", "file", "data", "done")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    opened: BackupOpened
    file: BackupFile
    data: bytes
    done: BackupDone
    def __init__(self, opened: _Optional[_Union[BackupOpened, _Mapping]] = ..., file: _Optional[_Union[BackupFile, _Mapping]] = ..., data: _Optional[bytes] = ..., done: _Optional[_Union[BackupDone, _Mapping]] = ...) -> None: ...

class BackupOpened(_message.Message):
    __slots__ = ("store_name", "commit", "bytes")
    STORE_NAME_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    store_name: str
    commit: int
    bytes: int
    def __init__(self, store_name: _Optional[str] = ..., commit: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class BackupFile(_message.Message):
    __slots__ = ("path", "size")
    PATH_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    path: str
    size: int
    def __init__(self, path: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...

class BackupDone(_message.Message):
    __slots__ = ("files",)
    FILES_FIELD_NUMBER: _ClassVar[int]
    files: int
    def __init__(self, files: _Optional[int] = ...) -> None: ...

class RestoreRequest(_message.Message):
    __slots__ = ("open", "batch", "fragment")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    open: RestoreOpen
    batch: bytes
    fragment: _messages_pb2.Fragment
    def __init__(self, open: _Optional[_Union[RestoreOpen, _Mapping]] = ..., batch: _Optional[bytes] = ..., fragment: _Optional[_Union[_messages_pb2.Fragment, _Mapping]] = ...) -> None: ...

class RestoreOpen(_message.Message):
    __slots__ = ("source", "lineage", "membership", "first", "last", "accepted_losses", "information", "promised_epoch", "reg_id", "protocol_version", "markers")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    MEMBERSHIP_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_LOSSES_FIELD_NUMBER: _ClassVar[int]
    INFORMATION_FIELD_NUMBER: _ClassVar[int]
    PROMISED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REG_ID_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    MARKERS_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    lineage: _containers.RepeatedCompositeFieldContainer[_messages_pb2.LineageEntry]
    membership: _messages_pb2.Membership
    first: int
    last: int
    accepted_losses: _containers.RepeatedCompositeFieldContainer[_messages_pb2.HeldRange]
    information: _messages_pb2.SourceInformation
    promised_epoch: int
    reg_id: int
    protocol_version: int
    markers: _containers.RepeatedCompositeFieldContainer[Marker]
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., lineage: _Optional[_Iterable[_Union[_messages_pb2.LineageEntry, _Mapping]]] = ..., membership: _Optional[_Union[_messages_pb2.Membership, _Mapping]] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., accepted_losses: _Optional[_Iterable[_Union[_messages_pb2.HeldRange, _Mapping]]] = ..., information: _Optional[_Union[_messages_pb2.SourceInformation, _Mapping]] = ..., promised_epoch: _Optional[int] = ..., reg_id: _Optional[int] = ..., protocol_version: _Optional[int] = ..., markers: _Optional[_Iterable[_Union[Marker, _Mapping]]] = ...) -> None: ...

class RestoreResponse(_message.Message):
    __slots__ = ("opened", "progress", "done", "failed")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    opened: RestoreOpened
    progress: RestoreProgress
    done: RestoreDone
    failed: _messages_pb2.Failure
    def __init__(self, opened: _Optional[_Union[RestoreOpened, _Mapping]] = ..., progress: _Optional[_Union[RestoreProgress, _Mapping]] = ..., done: _Optional[_Union[RestoreDone, _Mapping]] = ..., failed: _Optional[_Union[_messages_pb2.Failure, _Mapping]] = ...) -> None: ...

class RestoreOpened(_message.Message):
    __slots__ = ("store_name", "reg_id", "lacking", "upto")
    STORE_NAME_FIELD_NUMBER: _ClassVar[int]
    REG_ID_FIELD_NUMBER: _ClassVar[int]
    LACKING_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    store_name: str
    reg_id: int
    lacking: _containers.RepeatedCompositeFieldContainer[_messages_pb2.HeldRange]
    upto: int
    def __init__(self, store_name: _Optional[str] = ..., reg_id: _Optional[int] = ..., lacking: _Optional[_Iterable[_Union[_messages_pb2.HeldRange, _Mapping]]] = ..., upto: _Optional[int] = ...) -> None: ...

class RestoreProgress(_message.Message):
    __slots__ = ("next_sequence",)
    NEXT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    next_sequence: int
    def __init__(self, next_sequence: _Optional[int] = ...) -> None: ...

class RestoreDone(_message.Message):
    __slots__ = ("written", "held_already", "lacking", "limbo")
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    HELD_ALREADY_FIELD_NUMBER: _ClassVar[int]
    LACKING_FIELD_NUMBER: _ClassVar[int]
    LIMBO_FIELD_NUMBER: _ClassVar[int]
    written: int
    held_already: int
    lacking: _containers.RepeatedCompositeFieldContainer[_messages_pb2.HeldRange]
    limbo: bool
    def __init__(self, written: _Optional[int] = ..., held_already: _Optional[int] = ..., lacking: _Optional[_Iterable[_Union[_messages_pb2.HeldRange, _Mapping]]] = ..., limbo: bool = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ("protocol_version", "topic", "pattern", "position", "now", "since_ns", "bookmarks", "before_bookmarks", "delivered", "where", "select", "end_position", "end_now", "end_bookmarks", "end_before_bookmarks", "end_before_ns", "application")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    SINCE_NS_FIELD_NUMBER: _ClassVar[int]
    BOOKMARKS_FIELD_NUMBER: _ClassVar[int]
    BEFORE_BOOKMARKS_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    SELECT_FIELD_NUMBER: _ClassVar[int]
    END_POSITION_FIELD_NUMBER: _ClassVar[int]
    END_NOW_FIELD_NUMBER: _ClassVar[int]
    END_BOOKMARKS_FIELD_NUMBER: _ClassVar[int]
    END_BEFORE_BOOKMARKS_FIELD_NUMBER: _ClassVar[int]
    END_BEFORE_NS_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    topic: str
    pattern: str
    position: Position
    now: bool
    since_ns: int
    bookmarks: Position
    before_bookmarks: Position
    delivered: Delivered
    where: str
    select: str
    end_position: Position
    end_now: bool
    end_bookmarks: Position
    end_before_bookmarks: Position
    end_before_ns: int
    application: _messages_pb2.Application
    def __init__(self, protocol_version: _Optional[int] = ..., topic: _Optional[str] = ..., pattern: _Optional[str] = ..., position: _Optional[_Union[Position, _Mapping]] = ..., now: bool = ..., since_ns: _Optional[int] = ..., bookmarks: _Optional[_Union[Position, _Mapping]] = ..., before_bookmarks: _Optional[_Union[Position, _Mapping]] = ..., delivered: _Optional[_Union[Delivered, str]] = ..., where: _Optional[str] = ..., select: _Optional[str] = ..., end_position: _Optional[_Union[Position, _Mapping]] = ..., end_now: bool = ..., end_bookmarks: _Optional[_Union[Position, _Mapping]] = ..., end_before_bookmarks: _Optional[_Union[Position, _Mapping]] = ..., end_before_ns: _Optional[int] = ..., application: _Optional[_Union[_messages_pb2.Application, _Mapping]] = ...) -> None: ...

class Place(_message.Message):
    __slots__ = ("source", "epoch", "sequence")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    epoch: int
    sequence: int
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., epoch: _Optional[int] = ..., sequence: _Optional[int] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("places",)
    PLACES_FIELD_NUMBER: _ClassVar[int]
    places: _containers.RepeatedCompositeFieldContainer[Place]
    def __init__(self, places: _Optional[_Iterable[_Union[Place, _Mapping]]] = ...) -> None: ...

class SubscribeResponse(_message.Message):
    __slots__ = ("begins", "given", "completed", "ends")
    BEGINS_FIELD_NUMBER: _ClassVar[int]
    GIVEN_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    begins: Position
    given: _containers.RepeatedCompositeFieldContainer[Given]
    completed: bool
    ends: Position
    def __init__(self, begins: _Optional[_Union[Position, _Mapping]] = ..., given: _Optional[_Iterable[_Union[Given, _Mapping]]] = ..., completed: bool = ..., ends: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class Given(_message.Message):
    __slots__ = ("fetched", "selected", "gone", "moved", "set_aside", "stable_upto")
    FETCHED_FIELD_NUMBER: _ClassVar[int]
    SELECTED_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    SET_ASIDE_FIELD_NUMBER: _ClassVar[int]
    STABLE_UPTO_FIELD_NUMBER: _ClassVar[int]
    fetched: _messages_pb2.Fetched
    selected: Selected
    gone: Gone
    moved: Place
    set_aside: SetAside
    stable_upto: int
    def __init__(self, fetched: _Optional[_Union[_messages_pb2.Fetched, _Mapping]] = ..., selected: _Optional[_Union[Selected, _Mapping]] = ..., gone: _Optional[_Union[Gone, _Mapping]] = ..., moved: _Optional[_Union[Place, _Mapping]] = ..., set_aside: _Optional[_Union[SetAside, _Mapping]] = ..., stable_upto: _Optional[int] = ...) -> None: ...

class Selected(_message.Message):
    __slots__ = ("batch", "offsets", "upto")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    batch: bytes
    offsets: _containers.RepeatedScalarFieldContainer[int]
    upto: int
    def __init__(self, batch: _Optional[bytes] = ..., offsets: _Optional[_Iterable[int]] = ..., upto: _Optional[int] = ...) -> None: ...

class Gone(_message.Message):
    __slots__ = ("source", "first", "last", "why", "epoch")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    first: int
    last: int
    why: _messages_pb2.Lookup
    epoch: int
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., why: _Optional[_Union[_messages_pb2.Lookup, str]] = ..., epoch: _Optional[int] = ...) -> None: ...

class SetAside(_message.Message):
    __slots__ = ("source", "first", "last", "epoch")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    first: int
    last: int
    epoch: int
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class QueryStateRequest(_message.Message):
    __slots__ = ("protocol_version", "topic", "keys", "where", "select", "order_by", "limit", "counts_only", "at_least", "wait_seconds", "as_of_ns")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    SELECT_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    COUNTS_ONLY_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    AS_OF_NS_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    topic: str
    keys: _containers.RepeatedCompositeFieldContainer[StateKey]
    where: str
    select: str
    order_by: _containers.RepeatedScalarFieldContainer[str]
    limit: int
    counts_only: bool
    at_least: Position
    wait_seconds: float
    as_of_ns: int
    def __init__(self, protocol_version: _Optional[int] = ..., topic: _Optional[str] = ..., keys: _Optional[_Iterable[_Union[StateKey, _Mapping]]] = ..., where: _Optional[str] = ..., select: _Optional[str] = ..., order_by: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ..., counts_only: bool = ..., at_least: _Optional[_Union[Position, _Mapping]] = ..., wait_seconds: _Optional[float] = ..., as_of_ns: _Optional[int] = ...) -> None: ...

class StateKey(_message.Message):
    __slots__ = ("raw", "values")
    RAW_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    raw: bytes
    values: str
    def __init__(self, raw: _Optional[bytes] = ..., values: _Optional[str] = ...) -> None: ...

class QueryStateResponse(_message.Message):
    __slots__ = ("position", "rows", "end", "payload", "part")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    position: Position
    rows: _containers.RepeatedScalarFieldContainer[bytes]
    end: StateEnd
    payload: str
    part: RowPart
    def __init__(self, position: _Optional[_Union[Position, _Mapping]] = ..., rows: _Optional[_Iterable[bytes]] = ..., end: _Optional[_Union[StateEnd, _Mapping]] = ..., payload: _Optional[str] = ..., part: _Optional[_Union[RowPart, _Mapping]] = ...) -> None: ...

class RowPart(_message.Message):
    __slots__ = ("data", "ends")
    DATA_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    ends: bool
    def __init__(self, data: _Optional[bytes] = ..., ends: bool = ...) -> None: ...

class StateEnd(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...

class WatchStateRequest(_message.Message):
    __slots__ = ("protocol_version", "topic", "where", "select", "behind", "at_least", "wait_seconds")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    SELECT_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    topic: str
    where: str
    select: str
    behind: Position
    at_least: Position
    wait_seconds: float
    def __init__(self, protocol_version: _Optional[int] = ..., topic: _Optional[str] = ..., where: _Optional[str] = ..., select: _Optional[str] = ..., behind: _Optional[_Union[Position, _Mapping]] = ..., at_least: _Optional[_Union[Position, _Mapping]] = ..., wait_seconds: _Optional[float] = ...) -> None: ...

class WatchStateResponse(_message.Message):
    __slots__ = ("begins_anew", "changes", "position", "part")
    BEGINS_ANEW_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    begins_anew: bool
    changes: _containers.RepeatedCompositeFieldContainer[StateChange]
    position: Position
    part: RowPart
    def __init__(self, begins_anew: bool = ..., changes: _Optional[_Iterable[_Union[StateChange, _Mapping]]] = ..., position: _Optional[_Union[Position, _Mapping]] = ..., part: _Optional[_Union[RowPart, _Mapping]] = ...) -> None: ...

class StateChange(_message.Message):
    __slots__ = ("key", "row", "reason", "by")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    key: StateKey
    row: bytes
    reason: LeftReason
    by: Place
    def __init__(self, key: _Optional[_Union[StateKey, _Mapping]] = ..., row: _Optional[bytes] = ..., reason: _Optional[_Union[LeftReason, str]] = ..., by: _Optional[_Union[Place, _Mapping]] = ...) -> None: ...

class DigestStateRequest(_message.Message):
    __slots__ = ("protocol_version", "topic", "at_least", "wait_seconds", "at_ns")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    AT_NS_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    topic: str
    at_least: Position
    wait_seconds: float
    at_ns: int
    def __init__(self, protocol_version: _Optional[int] = ..., topic: _Optional[str] = ..., at_least: _Optional[_Union[Position, _Mapping]] = ..., wait_seconds: _Optional[float] = ..., at_ns: _Optional[int] = ...) -> None: ...

class DigestStateResponse(_message.Message):
    __slots__ = ("position", "digest", "count")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    position: Position
    digest: bytes
    count: int
    def __init__(self, position: _Optional[_Union[Position, _Mapping]] = ..., digest: _Optional[bytes] = ..., count: _Optional[int] = ...) -> None: ...

class RowsStatus(_message.Message):
    __slots__ = ("upto", "left_out", "lacks_upto", "behind_seconds")
    UPTO_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    LACKS_UPTO_FIELD_NUMBER: _ClassVar[int]
    BEHIND_SECONDS_FIELD_NUMBER: _ClassVar[int]
    upto: int
    left_out: int
    lacks_upto: int
    behind_seconds: float
    def __init__(self, upto: _Optional[int] = ..., left_out: _Optional[int] = ..., lacks_upto: _Optional[int] = ..., behind_seconds: _Optional[float] = ...) -> None: ...

class StateCandidatesRequest(_message.Message):
    __slots__ = ("protocol_version", "topic", "keys")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    topic: str
    keys: str
    def __init__(self, protocol_version: _Optional[int] = ..., topic: _Optional[str] = ..., keys: _Optional[str] = ...) -> None: ...

class StateCandidatesResponse(_message.Message):
    __slots__ = ("places", "candidates", "end", "part")
    PLACES_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    places: _containers.RepeatedCompositeFieldContainer[RowsPlace]
    candidates: _containers.RepeatedCompositeFieldContainer[StateCandidate]
    end: bool
    part: RowPart
    def __init__(self, places: _Optional[_Iterable[_Union[RowsPlace, _Mapping]]] = ..., candidates: _Optional[_Iterable[_Union[StateCandidate, _Mapping]]] = ..., end: bool = ..., part: _Optional[_Union[RowPart, _Mapping]] = ...) -> None: ...

class RowsPlace(_message.Message):
    __slots__ = ("session_id", "place", "rows")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    place: Place
    rows: RowsStatus
    def __init__(self, session_id: _Optional[int] = ..., place: _Optional[_Union[Place, _Mapping]] = ..., rows: _Optional[_Union[RowsStatus, _Mapping]] = ...) -> None: ...

class StateCandidate(_message.Message):
    __slots__ = ("key", "epoch", "sequence", "time_ns", "expires_ns", "row", "session_id")
    KEY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_NS_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    epoch: int
    sequence: int
    time_ns: int
    expires_ns: int
    row: bytes
    session_id: int
    def __init__(self, key: _Optional[bytes] = ..., epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., time_ns: _Optional[int] = ..., expires_ns: _Optional[int] = ..., row: _Optional[bytes] = ..., session_id: _Optional[int] = ...) -> None: ...
