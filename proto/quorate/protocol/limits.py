"""Versions, sizes and bounds that both ends must agree on, and the relations between them.

Nothing here may be configured: what users may set lives in the configuration of each part.
"""

PROTOCOL_VERSION = 1
"""The version of the protocol that this side speaks."""
PROTOCOL_VERSIONS = range(1, 2)
"""The versions that this side understands. A release that adds a version still speaks the former
one, and the next release speaks it. So neighbouring releases understand each other."""

MESSAGE_BYTES_USUAL = 1024 * 1024
"""Bytes of the largest message that a source accepts unless it is told otherwise.

A message has payload, key and properties, as they are encoded. A larger one has a batch of its own.
"""

MESSAGE_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of the largest message that any setting admits.

Larger things belong in object storage, with a message that names them: a receiver holds a message
in memory.
"""

BATCH_BYTES_TARGET = 256 * 1024
"""Bytes of messages that close a batch. Above it a frame costs its bytes, not its count."""

BATCH_MESSAGES_MAX = 4096
"""Messages that close a batch, so that tiny ones do not make a receiver's step long."""

WHOLE_BATCH_BYTES_MAX = 1536 * 1024
"""Bytes of the largest batch that travels, and is stored, as a whole. A larger one is a large
batch: it has one message, and goes in fragments."""

FRAGMENT_BYTES = 512 * 1024
"""Bytes of each fragment of a large batch but the last. No step on an event loop has more of it."""

FRAGMENTS_AHEAD = 4
"""Fragments of a stream that a store may have been sent and not written. They bound what a commit
of the store writes, and so for how long it holds up other streams."""

BATCH_BYTES_MAX = MESSAGE_BYTES_MAX + 4096
"""Bytes of the largest batch: its head and the tags of its body are added to the message."""

FRAME_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of the largest frame on the wire, which gRPC is told to accept."""

RESPONSE_BYTES_TARGET = 256 * 1024
"""Bytes of answers to a fetch that share a response. Above it the bytes cost, not the response."""

RESPONSE_ANSWERS_MAX = 64
"""Answers that share a response, so that tiny ones do not make the client's step long."""

ATTRIBUTE_BYTES_MORE = 16
"""Bytes that a key, a property, or an expiry, counts beside its name and value: columns take no
more."""

MESSAGE_BYTES_MORE = 13
"""Bytes that a message takes in a batch beside what it counts: its length 4, time 8, flags 1."""

TOPIC_BYTES_MAX = 255
PROPERTY_NAME_BYTES_MAX = 255
MARKER_BYTES_MAX = 1024
"""Bytes of the largest application marker: it names what was done, it does not hold it."""

SESSION_ID_MAX = 2**64 - 2
"""The highest session ID. All bits set is no session, nor is zero."""

LINEAGE_TERMS_MAX = 16_384
"""The most terms of a lineage, and so the most registrations after which messages were sent."""

ARCHIVED_SOURCES_MAX = 1000
"""Most sources of which one call says how far an archive has them."""

ARCHIVED_PLACES_MAX = 20_000
"""Most sources of which a call for an inventory says how far an archive has them."""

RANGES_MAX = 1024
"""The most ranges of numbers that a request to a store may name."""

ACKNOWLEDGEMENTS_MAX = 1024
"""The most sources for which one request may acknowledge."""

BUNDLED_CALLS_MAX = 256
"""The most calls, or answers, that one frame of a bundle has."""

GIVEN_UP_MAX = 1024
"""The most calls that one frame of a bundle gives up."""

INSTANCE_BYTES_MAX = 16
"""The most bytes of the random ID of an instance."""

EPOCH_STEP_MAX = 2**32
"""How far an epoch may be above the highest that a store knows of an identity. Epochs rise by one
with each registration, so nobody who follows the protocol is ever so far ahead."""

NUMBER_DIGITS_MAX = 20
"""Digits of the longest number in a text: those of 2**64. Python refuses to read very long ones."""

REG_ID_MAX = 2**64 - 1
SEQUENCE_MAX = 2**63 - 2
"""The highest sequence number. The number behind it still fits into the wire and the rows."""
NOTHING = -1
"""Stands for "the highest sequence number that …" while there is none."""

# A batch that is one byte short of its target may still take one message of the usual size.
# A batch adds length, time and flags of each message, and its head.
assert (
    BATCH_BYTES_TARGET + MESSAGE_BYTES_USUAL + MESSAGE_BYTES_MORE * BATCH_MESSAGES_MAX + 2048
    < WHOLE_BATCH_BYTES_MAX
    < FRAME_BYTES_MAX - FRAGMENT_BYTES
)
