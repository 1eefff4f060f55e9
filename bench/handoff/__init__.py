"""How fast lanes change their owner, and what the others feel of it; beside Kafka Streams."""
