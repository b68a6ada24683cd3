"""The program `python -m quorate.pipeline JOB …`, and the file to give to `spark-submit`."""

from __future__ import annotations

import sys
from pathlib import Path

# When this runs as a file, Python would find our modules under short names that others use.
_HERE = str(Path(__file__).resolve().parent)
sys.path[:] = [each for each in sys.path if not each or str(Path(each).resolve()) != _HERE]

from quorate.pipeline.jobs.command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
