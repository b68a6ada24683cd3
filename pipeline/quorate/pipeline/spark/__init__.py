"""The link to Spark: Java, sessions, the data source, programs that spark-submit started."""
