"""The pipeline's jobs, one file each, and their command line."""
