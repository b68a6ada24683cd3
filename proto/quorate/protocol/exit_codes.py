"""The exit codes of the command and of the jobs that Spark is given, by name.

Each error class names its own code in `exit_code` (see quorate.protocol.errors.base).
Nothing here knows an error.
"""

from __future__ import annotations

DONE = 0
FAILED = 1
USAGE = 2
UNHEALTHY = 10
UNREACHABLE = 69
OUTCOME_UNKNOWN = 75
DENIED = 77
CONFIGURATION = 78
INTERRUPTED = 130
