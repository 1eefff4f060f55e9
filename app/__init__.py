"""The shell around the join: command line, worker loop, Kafka client, HTTP, and the pure join itself."""
