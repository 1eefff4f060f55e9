"""The shell around the join: command line, worker loop, Kafka client, HTTP; and the join itself."""
