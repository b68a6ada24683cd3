"""Being written: see docs/protocol.md."""
