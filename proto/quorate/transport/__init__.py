"""The gRPC shell that all parts share: channels, errors on the wire, a loop for blocking code."""
