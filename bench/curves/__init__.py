"""How the cost of a record grows with what it might grow with: join and store without Kafka."""
