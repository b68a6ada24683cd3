"""The receiver's tasks and calls. They carry out what the protocol folder decides."""
