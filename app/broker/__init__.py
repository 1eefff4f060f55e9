"""A real Kafka broker for tests and demo: a given one, in Docker, or from Kafka's jars."""

from __future__ import annotations

from app.broker.interface import Broker, BrokerUnavailable
from app.broker.start import ENVIRONMENT_NAME, start_broker

__all__ = ["ENVIRONMENT_NAME", "Broker", "BrokerUnavailable", "start_broker"]
