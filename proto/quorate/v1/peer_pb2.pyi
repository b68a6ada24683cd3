from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class BeatRequest(_message.Message):
    __slots__ = ("interval_seconds", "timeout_seconds")
    INTERVAL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    interval_seconds: float
    timeout_seconds: float
    def __init__(self, interval_seconds: _Optional[float] = ..., timeout_seconds: _Optional[float] = ...) -> None: ...

class BeatResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
