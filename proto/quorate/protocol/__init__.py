"""The rules that sources, receivers and stores obey: pure Python, no I/O, no clock.

Read the modules in this order:

- `policy`: when a message is stable;
- `recovery`: how much of its stream a restarted source keeps;
- `lineage`: which batches belong to a stream;
- `framing`: the bytes of a batch.
"""
