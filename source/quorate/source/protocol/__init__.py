"""The source's rules: inputs and times in, what to send and to tell out. No I/O, no clock."""
