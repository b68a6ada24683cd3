"""The store: keeps what sources send, says when it is on the disk, and serves it to who was away.

Start with `core` (the rules for sources: promise, begin, the stream) and `receivers` (positions),
which have no I/O; `writer` is the group commit, `service` and `append` the calls, `node` puts a
store together, `repair` makes up for holes from peers.
"""
