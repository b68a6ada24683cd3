"""The parts of the job that audits the stores: see quorate.pipeline.jobs.audit."""
