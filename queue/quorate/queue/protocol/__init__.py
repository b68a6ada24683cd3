"""The rules of a queue: no clock, no I/O, no gRPC and no protobuf."""
