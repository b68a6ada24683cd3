"""The rules that a subscriber follows. Pure: no I/O, no clock, no gRPC."""
