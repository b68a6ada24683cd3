"""Publish stores: the places where a source keeps messages that are not yet stable.

A message is in the publish store before `send` returns its number, and before it goes on the wire.
`MemoryPublishStore` adds nothing to the memory of the source. `FilePublishStore` outlives the
process: a source that was killed sends its unstable messages again, unchanged and under the same
sequence numbers.
"""

from quorate.source.publish_store.directory import FilePublishStore as FilePublishStore
from quorate.source.publish_store.interface import MemoryPublishStore as MemoryPublishStore
from quorate.source.publish_store.interface import PublishStore as PublishStore
from quorate.source.publish_store.interface import Remembered as Remembered
