"""The store's rules: state in, decisions and rows to write out. No await, no clock, no gRPC."""
