from quorate.v1 import messages_pb2 as _messages_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeliveryLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELIVERY_LEVEL_UNSPECIFIED: _ClassVar[DeliveryLevel]
    DELIVERY_LEVEL_LIVE: _ClassVar[DeliveryLevel]
    DELIVERY_LEVEL_STABLE: _ClassVar[DeliveryLevel]
DELIVERY_LEVEL_UNSPECIFIED: DeliveryLevel
DELIVERY_LEVEL_LIVE: DeliveryLevel
DELIVERY_LEVEL_STABLE: DeliveryLevel

class AttachRequest(_message.Message):
    __slots__ = ("source", "session_id", "delivery", "protocol_version")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    session_id: int
    delivery: DeliveryLevel
    protocol_version: int
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., session_id: _Optional[int] = ..., delivery: _Optional[_Union[DeliveryLevel, str]] = ..., protocol_version: _Optional[int] = ...) -> None: ...

class ConfirmRequest(_message.Message):
    __slots__ = ("source", "session_id", "reg_id", "source_epoch", "upto", "protocol_version")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REG_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    source: _messages_pb2.SourceName
    session_id: int
    reg_id: int
    source_epoch: int
    upto: int
    protocol_version: int
    def __init__(self, source: _Optional[_Union[_messages_pb2.SourceName, _Mapping]] = ..., session_id: _Optional[int] = ..., reg_id: _Optional[int] = ..., source_epoch: _Optional[int] = ..., upto: _Optional[int] = ..., protocol_version: _Optional[int] = ...) -> None: ...

class ConfirmResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
