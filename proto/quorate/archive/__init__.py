"""The archive as its readers need it: its table, and its files as rows or as batches.

The pipeline writes archives, and reads them with Spark. Subscribers read them without Spark.
"""
