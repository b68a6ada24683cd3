"""`python -m quorate.pipeline JOB …`, and the file that `spark-submit` is given."""

from __future__ import annotations

import sys
from pathlib import Path

# Run as a file, Python would find our modules under the short names that others' have.
_HERE = str(Path(__file__).resolve().parent)
sys.path[:] = [each for each in sys.path if not each or str(Path(each).resolve()) != _HERE]

from quorate.pipeline.jobs.command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
