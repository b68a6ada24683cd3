"""The receiver's tasks and calls: they carry out what the protocol folder decides."""
