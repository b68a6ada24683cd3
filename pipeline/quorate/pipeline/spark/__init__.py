"""What Spark itself needs: Java, sessions, the data source, spark-submit."""
