"""The rules that sources, receivers and stores obey: pure Python, no I/O, no clock.

Start with `policy` (when is a message stable), then `recovery` (what a restarted source keeps),
`lineage` (which batches belong to a stream) and `framing` (what a batch looks like).
"""
