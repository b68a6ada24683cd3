"""`python -m quorate.pipeline JOB …`, and what `spark-submit` is given."""

from __future__ import annotations

import sys

from quorate.pipeline.jobs import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
