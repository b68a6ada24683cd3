"""The parts of the job that audits the stores, which is quorate.pipeline.jobs.audit."""
