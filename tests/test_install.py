"""What a plain install must be able to do: the SDKs work without the libraries of the store."""

import subprocess
import sys

_IMPORT_WITHOUT = """
import sys
for missing in ("rocksdict", "pydantic", "psutil"):
    sys.modules[missing] = None
import quorate.source.blocking, quorate.receiver.blocking
from quorate.source import FilePublishStore, Source
from quorate.receiver import Receiver
print("imported", Source.__name__, Receiver.__name__, FilePublishStore.__name__)
"""


def test_the_sdks_import_without_the_stores_libraries() -> None:
    run = subprocess.run(
        [sys.executable, "-c", _IMPORT_WITHOUT], capture_output=True, text=True, check=False
    )
    assert run.stdout == "imported Source Receiver FilePublishStore\n", run.stderr
