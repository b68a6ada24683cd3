"""The source's rules: events and times go in, what to send and to tell comes out. No I/O."""
