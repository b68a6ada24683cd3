from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class IntragroupRule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INTRAGROUP_RULE_UNSPECIFIED: _ClassVar[IntragroupRule]
    INTRAGROUP_RULE_QUORUM: _ClassVar[IntragroupRule]
    INTRAGROUP_RULE_ALL_ACTIVE: _ClassVar[IntragroupRule]
    INTRAGROUP_RULE_ALL: _ClassVar[IntragroupRule]

class IntergroupRule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INTERGROUP_RULE_UNSPECIFIED: _ClassVar[IntergroupRule]
    INTERGROUP_RULE_ANY: _ClassVar[IntergroupRule]
    INTERGROUP_RULE_MAJORITY: _ClassVar[IntergroupRule]
    INTERGROUP_RULE_ALL_ACTIVE: _ClassVar[IntergroupRule]
    INTERGROUP_RULE_ALL: _ClassVar[IntergroupRule]

class Durability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DURABILITY_UNSPECIFIED: _ClassVar[Durability]
    DURABILITY_FSYNC: _ClassVar[Durability]
    DURABILITY_OS: _ClassVar[Durability]
    DURABILITY_MEMORY: _ClassVar[Durability]
    DURABILITY_STATE_ONLY: _ClassVar[Durability]

class Lookup(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOOKUP_UNSPECIFIED: _ClassVar[Lookup]
    LOOKUP_ABSENT: _ClassVar[Lookup]
    LOOKUP_UNKNOWN: _ClassVar[Lookup]
    LOOKUP_LOST: _ClassVar[Lookup]
    LOOKUP_RELEASED: _ClassVar[Lookup]
    LOOKUP_POISONED: _ClassVar[Lookup]
INTRAGROUP_RULE_UNSPECIFIED: IntragroupRule
INTRAGROUP_RULE_QUORUM: IntragroupRule
INTRAGROUP_RULE_ALL_ACTIVE: IntragroupRule
INTRAGROUP_RULE_ALL: IntragroupRule
INTERGROUP_RULE_UNSPECIFIED: IntergroupRule
INTERGROUP_RULE_ANY: IntergroupRule
INTERGROUP_RULE_MAJORITY: IntergroupRule
INTERGROUP_RULE_ALL_ACTIVE: IntergroupRule
INTERGROUP_RULE_ALL: IntergroupRule
DURABILITY_UNSPECIFIED: Durability
DURABILITY_FSYNC: Durability
DURABILITY_OS: Durability
DURABILITY_MEMORY: Durability
DURABILITY_STATE_ONLY: Durability
LOOKUP_UNSPECIFIED: Lookup
LOOKUP_ABSENT: Lookup
LOOKUP_UNKNOWN: Lookup
LOOKUP_LOST: Lookup
LOOKUP_RELEASED: Lookup
LOOKUP_POISONED: Lookup

class SourceName(_message.Message):
    __slots__ = ("topic", "session_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    session_id: int
    def __init__(self, topic: _Optional[str] = ..., session_id: _Optional[int] = ...) -> None: ...

class LineageEntry(_message.Message):
    __slots__ = ("epoch", "first_sequence")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    first_sequence: int
    def __init__(self, epoch: _Optional[int] = ..., first_sequence: _Optional[int] = ...) -> None: ...

class HeldRange(_message.Message):
    __slots__ = ("first", "last", "epoch")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    epoch: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class Group(_message.Message):
    __slots__ = ("name", "stores", "rule", "backups")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STORES_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    BACKUPS_FIELD_NUMBER: _ClassVar[int]
    name: str
    stores: _containers.RepeatedScalarFieldContainer[str]
    rule: IntragroupRule
    backups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., stores: _Optional[_Iterable[str]] = ..., rule: _Optional[_Union[IntragroupRule, str]] = ..., backups: _Optional[_Iterable[str]] = ...) -> None: ...

class Policy(_message.Message):
    __slots__ = ("groups", "rule")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[Group]
    rule: IntergroupRule
    def __init__(self, groups: _Optional[_Iterable[_Union[Group, _Mapping]]] = ..., rule: _Optional[_Union[IntergroupRule, str]] = ...) -> None: ...

class Membership(_message.Message):
    __slots__ = ("from_policies", "to_policies", "stores")
    FROM_POLICIES_FIELD_NUMBER: _ClassVar[int]
    TO_POLICIES_FIELD_NUMBER: _ClassVar[int]
    STORES_FIELD_NUMBER: _ClassVar[int]
    from_policies: _containers.RepeatedCompositeFieldContainer[Policy]
    to_policies: _containers.RepeatedCompositeFieldContainer[Policy]
    stores: _containers.RepeatedCompositeFieldContainer[StoreEntry]
    def __init__(self, from_policies: _Optional[_Iterable[_Union[Policy, _Mapping]]] = ..., to_policies: _Optional[_Iterable[_Union[Policy, _Mapping]]] = ..., stores: _Optional[_Iterable[_Union[StoreEntry, _Mapping]]] = ...) -> None: ...

class BeginRecord(_message.Message):
    __slots__ = ("lineage", "membership", "generation")
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    MEMBERSHIP_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    lineage: _containers.RepeatedCompositeFieldContainer[LineageEntry]
    membership: Membership
    generation: int
    def __init__(self, lineage: _Optional[_Iterable[_Union[LineageEntry, _Mapping]]] = ..., membership: _Optional[_Union[Membership, _Mapping]] = ..., generation: _Optional[int] = ...) -> None: ...

class StoreEntry(_message.Message):
    __slots__ = ("name", "address", "reg_id", "store_name")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    REG_ID_FIELD_NUMBER: _ClassVar[int]
    STORE_NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    reg_id: int
    store_name: str
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., reg_id: _Optional[int] = ..., store_name: _Optional[str] = ...) -> None: ...

class SourceInformation(_message.Message):
    __slots__ = ("source", "address", "epoch", "policy", "stores", "version", "receiver_pacing", "declared", "drawn")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    STORES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_PACING_FIELD_NUMBER: _ClassVar[int]
    DECLARED_FIELD_NUMBER: _ClassVar[int]
    DRAWN_FIELD_NUMBER: _ClassVar[int]
    source: SourceName
    address: str
    epoch: int
    policy: Policy
    stores: _containers.RepeatedCompositeFieldContainer[StoreEntry]
    version: int
    receiver_pacing: ReceiverPacing
    declared: Policy
    drawn: bool
    def __init__(self, source: _Optional[_Union[SourceName, _Mapping]] = ..., address: _Optional[str] = ..., epoch: _Optional[int] = ..., policy: _Optional[_Union[Policy, _Mapping]] = ..., stores: _Optional[_Iterable[_Union[StoreEntry, _Mapping]]] = ..., version: _Optional[int] = ..., receiver_pacing: _Optional[_Union[ReceiverPacing, _Mapping]] = ..., declared: _Optional[_Union[Policy, _Mapping]] = ..., drawn: bool = ...) -> None: ...

class ReceiverPacing(_message.Message):
    __slots__ = ("messages", "bytes")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    messages: int
    bytes: int
    def __init__(self, messages: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class Attributes(_message.Message):
    __slots__ = ("key", "properties", "deleted", "expires_ns")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_NS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    properties: _containers.ScalarMap[str, bytes]
    deleted: bool
    expires_ns: int
    def __init__(self, key: _Optional[bytes] = ..., properties: _Optional[_Mapping[str, bytes]] = ..., deleted: bool = ..., expires_ns: _Optional[int] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("batch", "open", "skip", "keepalive", "information", "attached", "goodbye", "fragment", "stable_upto")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    SKIP_FIELD_NUMBER: _ClassVar[int]
    KEEPALIVE_FIELD_NUMBER: _ClassVar[int]
    INFORMATION_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    STABLE_UPTO_FIELD_NUMBER: _ClassVar[int]
    batch: bytes
    open: AppendOpen
    skip: Skip
    keepalive: Keepalive
    information: SourceInformation
    attached: Attached
    goodbye: Goodbye
    fragment: Fragment
    stable_upto: int
    def __init__(self, batch: _Optional[bytes] = ..., open: _Optional[_Union[AppendOpen, _Mapping]] = ..., skip: _Optional[_Union[Skip, _Mapping]] = ..., keepalive: _Optional[_Union[Keepalive, _Mapping]] = ..., information: _Optional[_Union[SourceInformation, _Mapping]] = ..., attached: _Optional[_Union[Attached, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., fragment: _Optional[_Union[Fragment, _Mapping]] = ..., stable_upto: _Optional[int] = ...) -> None: ...

class Fragment(_message.Message):
    __slots__ = ("at", "size", "data")
    AT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    at: int
    size: int
    data: bytes
    def __init__(self, at: _Optional[int] = ..., size: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class AppendOpen(_message.Message):
    __slots__ = ("information", "instance", "retained_from", "protocol_version", "lifetimes", "incarnation", "application")
    INFORMATION_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    RETAINED_FROM_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    LIFETIMES_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    information: SourceInformation
    instance: bytes
    retained_from: int
    protocol_version: int
    lifetimes: Lifetimes
    incarnation: bytes
    application: Application
    def __init__(self, information: _Optional[_Union[SourceInformation, _Mapping]] = ..., instance: _Optional[bytes] = ..., retained_from: _Optional[int] = ..., protocol_version: _Optional[int] = ..., lifetimes: _Optional[_Union[Lifetimes, _Mapping]] = ..., incarnation: _Optional[bytes] = ..., application: _Optional[_Union[Application, _Mapping]] = ...) -> None: ...

class Application(_message.Message):
    __slots__ = ("name", "program", "host", "process_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PROCESS_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    program: str
    host: str
    process_id: int
    def __init__(self, name: _Optional[str] = ..., program: _Optional[str] = ..., host: _Optional[str] = ..., process_id: _Optional[int] = ...) -> None: ...

class Lifetimes(_message.Message):
    __slots__ = ("activity_timeout_seconds", "state_lifetime_seconds")
    ACTIVITY_TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    STATE_LIFETIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    activity_timeout_seconds: float
    state_lifetime_seconds: float
    def __init__(self, activity_timeout_seconds: _Optional[float] = ..., state_lifetime_seconds: _Optional[float] = ...) -> None: ...

class Skip(_message.Message):
    __slots__ = ("first", "last")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class Keepalive(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Attached(_message.Message):
    __slots__ = ("information", "next_sequence", "confirm")
    INFORMATION_FIELD_NUMBER: _ClassVar[int]
    NEXT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    information: SourceInformation
    next_sequence: int
    confirm: bool
    def __init__(self, information: _Optional[_Union[SourceInformation, _Mapping]] = ..., next_sequence: _Optional[int] = ..., confirm: bool = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ("last_sequence",)
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    last_sequence: int
    def __init__(self, last_sequence: _Optional[int] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("source", "first", "last", "protocol_version", "delivers")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    DELIVERS_FIELD_NUMBER: _ClassVar[int]
    source: SourceName
    first: int
    last: int
    protocol_version: int
    delivers: bool
    def __init__(self, source: _Optional[_Union[SourceName, _Mapping]] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., protocol_version: _Optional[int] = ..., delivers: bool = ...) -> None: ...

class FetchResponse(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[FetchAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[FetchAnswer, _Mapping]]] = ...) -> None: ...

class FetchAnswer(_message.Message):
    __slots__ = ("fetched", "missing", "end")
    FETCHED_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    fetched: Fetched
    missing: Missing
    end: FetchEnd
    def __init__(self, fetched: _Optional[_Union[Fetched, _Mapping]] = ..., missing: _Optional[_Union[Missing, _Mapping]] = ..., end: _Optional[_Union[FetchEnd, _Mapping]] = ...) -> None: ...

class Fetched(_message.Message):
    __slots__ = ("batch", "first", "last", "fragment")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    batch: bytes
    first: int
    last: int
    fragment: Fragment
    def __init__(self, batch: _Optional[bytes] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., fragment: _Optional[_Union[Fragment, _Mapping]] = ...) -> None: ...

class Missing(_message.Message):
    __slots__ = ("first", "last", "why", "detail")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    why: Lookup
    detail: str
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ..., why: _Optional[_Union[Lookup, str]] = ..., detail: _Optional[str] = ...) -> None: ...

class FetchEnd(_message.Message):
    __slots__ = ("high", "stable_upto", "lineage", "retained_from")
    HIGH_FIELD_NUMBER: _ClassVar[int]
    STABLE_UPTO_FIELD_NUMBER: _ClassVar[int]
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    RETAINED_FROM_FIELD_NUMBER: _ClassVar[int]
    high: int
    stable_upto: int
    lineage: _containers.RepeatedCompositeFieldContainer[LineageEntry]
    retained_from: int
    def __init__(self, high: _Optional[int] = ..., stable_upto: _Optional[int] = ..., lineage: _Optional[_Iterable[_Union[LineageEntry, _Mapping]]] = ..., retained_from: _Optional[int] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("kind", "message", "fields")
    class FieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    message: str
    fields: _containers.ScalarMap[str, str]
    def __init__(self, kind: _Optional[str] = ..., message: _Optional[str] = ..., fields: _Optional[_Mapping[str, str]] = ...) -> None: ...
