"""The module that Python imports first in the daemons of Spark, before they fork their workers.

It imports what the workers need. Spark forks one for almost every step of a plan, and the imports
would take a second of each.
"""

import os
import sys

if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]:
    # Only a process with a single thread may be forked: neither starts threads.
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import pandas  # type: ignore[import-untyped] # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import pyspark.sql.streaming.python_streaming_source_runner
    import pyspark.sql.worker.commit_data_source_write
    import pyspark.sql.worker.create_data_source
    import pyspark.sql.worker.data_source_pushdown_filters
    import pyspark.sql.worker.lookup_data_sources
    import pyspark.sql.worker.plan_data_source_read
    import pyspark.sql.worker.python_streaming_sink_runner
    import pyspark.sql.worker.write_into_data_source
    import pyspark.worker  # noqa: F401

    import quorate.pipeline.read.batch_reader
    import quorate.pipeline.read.ranges
    import quorate.pipeline.read.state_reader
    import quorate.pipeline.read.stream_reader
    import quorate.pipeline.spark.sessions
    import quorate.pipeline.write.batch_writer
    import quorate.pipeline.write.stream_writer  # noqa: F401

    assert len(os.listdir("/proc/self/task")) == 1
