"""How soon a large state is there again, and what it takes in memory, on disk and in Kafka."""
