"""Versions, sizes and bounds that both ends must agree on, and the relations between them.

Nothing here may be configured: what users may set lives in the configuration of each part.
"""

PROTOCOL_VERSION = 1

MESSAGE_BYTES_MAX = 1024 * 1024
"""Bytes of the largest message: payload, key and properties as they are encoded.

Larger things belong in object storage, with a message that names them. Every process on a frame's
way holds the frame in memory.
"""

BATCH_BYTES_TARGET = 256 * 1024
"""Bytes of messages that close a batch. Above it a frame costs its bytes, not its count."""

BATCH_MESSAGES_MAX = 4096
"""Messages that close a batch, so that tiny ones do not make a receiver's step long."""

FRAME_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of the largest frame on the wire, which gRPC is told to accept."""

RESPONSE_BYTES_TARGET = 256 * 1024
"""Bytes of answers to a fetch that share a response. Above it the bytes cost, not the response."""

RESPONSE_ANSWERS_MAX = 64
"""Answers that share a response, so that tiny ones do not make the client's step long."""

TOPIC_BYTES_MAX = 255
PROPERTY_NAME_BYTES_MAX = 255
MARKER_BYTES_MAX = 1024
"""Bytes of the largest application marker: it names what was done, it does not hold it."""

SESSION_ID_MAX = 2**64 - 2
"""The highest session ID. All bits set is no session, nor is zero."""

REG_ID_MAX = 2**64 - 1
SEQUENCE_MAX = 2**63 - 1
NOTHING = -1
"""Stands for "the highest sequence number that …" while there is none."""

# A batch that is one byte short of its target may still take one message of the largest size.
# Framing adds up to four bytes before each payload, and as many before each message's attributes.
assert BATCH_BYTES_TARGET + MESSAGE_BYTES_MAX + 8 * BATCH_MESSAGES_MAX + 1024 < FRAME_BYTES_MAX
