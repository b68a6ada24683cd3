"""Versions, sizes and bounds that both ends must agree on, and the relations between them.

Nothing here may be configured: what users may set lives in the configuration of each part.
"""

PROTOCOL_VERSION = 1

MESSAGE_BYTES_MAX = 1024 * 1024
"""Largest message: its payload, and its key and properties as they are encoded. Larger things
belong in object storage, with a message that names them: a frame is held in memory by every process
it passes."""

BATCH_BYTES_TARGET = 256 * 1024
"""A batch is closed once its messages reach this; past it a frame costs its bytes,
not its count."""

BATCH_MESSAGES_MAX = 4096
"""A batch is closed at this many messages, so that tiny ones do not make a receiver's step long."""

FRAME_BYTES_MAX = 4 * 1024 * 1024
"""Largest frame on the wire: what gRPC is told to accept."""

RESPONSE_BYTES_TARGET = 256 * 1024
"""Answers to a fetch share a response up to here; past it the bytes cost, not the response."""

RESPONSE_ANSWERS_MAX = 64
"""Answers in a response, so that tiny ones do not make the step of who takes them long."""

TOPIC_BYTES_MAX = 255
PROPERTY_NAME_BYTES_MAX = 255
MARKER_BYTES_MAX = 1024
"""Largest application marker: it names what was done, it does not hold it."""

SESSION_ID_MAX = 2**64 - 2
"""All ones is no session, as zero is."""

REG_ID_MAX = 2**64 - 1
SEQUENCE_MAX = 2**63 - 1
NOTHING = -1
"""Where "the highest sequence number that …" has none yet."""

# A batch that is one byte short of its target may still take one message of the largest size,
# and every message costs a few bytes of framing, up to four before its payload and as many before
# its attributes.
assert BATCH_BYTES_TARGET + MESSAGE_BYTES_MAX + 8 * BATCH_MESSAGES_MAX + 1024 < FRAME_BYTES_MAX
