"""The edge to Kafka: the only modules of a worker that import the vendor's client."""
