"""The source's tasks, calls and servers: they carry out what the protocol folder decides."""
