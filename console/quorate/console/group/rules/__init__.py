"""The rules by which a group is assessed, listed and changed: no call, no clock, no file."""
