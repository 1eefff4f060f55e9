"""Settings from the environment: what is taken, what is a slip, and what is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.jobs import MINIMAL, job
from tests.unit.test_config import wrong

if TYPE_CHECKING:
    from pathlib import Path

    from app.config import Config


@pytest.mark.parametrize(
    ("variable", "value", "found"),
    [
        ("SPANJOIN_NAME", "other", lambda c: c.name == "other"),
        ("SPANJOIN_UNIT", "us", lambda c: c.lateness == 10_000_000),
        ("SPANJOIN_KAFKA__BOOTSTRAP_SERVERS", "h:1", lambda c: c.bootstrap_servers == "h:1"),
        (
            "SPANJOIN_KAFKA__CONSUMER__FETCH_MIN_BYTES", "7",
            lambda c: c.consumer_properties()["fetch.min.bytes"] == "7",
        ),
        (
            "SPANJOIN_KAFKA__PRODUCER__LINGER_MS", "7",
            lambda c: c.producer_properties()["linger.ms"] == "7",
        ),
        ("SPANJOIN_JOIN__ALLOWED_LATENESS", "1m", lambda c: c.lateness == 60_000),
        ("SPANJOIN_JOIN__ALLOWED_LATENESS", "5", lambda c: c.lateness == 5),
        ("SPANJOIN_HTTP__PORT", "8081", lambda c: c.http.port == 8081),
        ("SPANJOIN_TURN__MAX_RECORDS", "5", lambda c: c.turn.max_records == 5),
        ("SPANJOIN_LEFT__FIELDS__ID", "key", lambda c: c.left.fields.id == "key"),
        ("SPANJOIN_STATE__DIR", "/there", lambda c: str(c.state.dir) == "/there"),
        ("SPANJOIN_LOG__FORMAT", "json", lambda c: c.log.format == "json"),
    ],
)  # fmt: skip
def test_environment_overrides(tmp_path: Path, variable: str, value: str, found: object) -> None:
    assert callable(found)
    config: Config = job(tmp_path, environ={variable: value})
    assert found(config)


def test_environment_replaces_unquoted_properties(tmp_path: Path) -> None:
    text = MINIMAL.replace('"bootstrap.servers"', "bootstrap.servers")
    config = job(tmp_path, text, {"SPANJOIN_KAFKA__BOOTSTRAP_SERVERS": "h:1"})
    assert config.kafka_common == {"bootstrap.servers": "h:1"}


def test_environment_can_be_all_there_is(tmp_path: Path) -> None:
    environ = {
        "SPANJOIN_NAME": "job",
        "SPANJOIN_KAFKA__BOOTSTRAP_SERVERS": "h:1",
        "SPANJOIN_LEFT__TOPIC": "l",
        "SPANJOIN_RIGHT__TOPIC": "r",
        "SPANJOIN_OUTPUT__TOPIC": "out",
        "SPANJOIN_JOIN__ALLOWED_LATENESS": "10",
        "SPANJOIN_JOIN__MAX_INTERVAL": "50",
    }
    assert job(tmp_path, "", environ).lateness == 10


def test_unknown_variables_are_errors_unless_an_orchestrator_made_them(tmp_path: Path) -> None:
    text = wrong(tmp_path, MINIMAL, SPANJOIN_JION__MAX_INTERVAL="1")
    assert "unknown key jion" in text
    text = wrong(tmp_path, MINIMAL, SPANJOIN_NAME__X="1")
    assert "SPANJOIN_NAME__X does not name a setting" in text
    ignored = {
        "SPANJOIN_PORT": "tcp://10.0.0.1:80",
        "SPANJOIN_SERVICE_HOST": "10.0.0.1",
        "SPANJOIN_TEST_BOOTSTRAP_SERVERS": "elsewhere:1",
        "OTHER__X": "1",
    }
    assert job(tmp_path, environ=ignored) == job(tmp_path)


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("SPANJOIN_KAFKA_BOOTSTRAP_SERVERS", "SPANJOIN_KAFKA__BOOTSTRAP_SERVERS"),
        ("SPANJOIN_KAFKA_SASL_PASSWORD_FROM_FILE", "SPANJOIN_KAFKA__SASL_PASSWORD_FROM_FILE"),
        ("SPANJOIN_KAFKA_CONSUMER_CLIENT_ID", "SPANJOIN_KAFKA__CONSUMER__CLIENT_ID"),
        ("SPANJOIN_JOIN_TYPE", "SPANJOIN_JOIN__TYPE"),
        ("SPANJOIN_LEFT_FIELDS_TS", "SPANJOIN_LEFT__FIELDS__TS"),
        ("SPANJOIN_LEFT_FIELDS__TS", "SPANJOIN_LEFT__FIELDS__TS"),
        ("SPANJOIN_SCHEMA_REGISTRY_URL", "SPANJOIN_SCHEMA__REGISTRY__URL"),
        ("SPANJOIN_HTTP_PORT", "SPANJOIN_HTTP__PORT"),
    ],
)
def test_a_variable_without_its_second_underscore_is_a_slip(
    tmp_path: Path, variable: str, meant: str
) -> None:
    assert f"did you mean {meant}?" in wrong(tmp_path, MINIMAL, **{variable: "8081"})


def test_names_that_an_orchestrator_invents_are_no_slips(tmp_path: Path) -> None:
    services = ("", "_HTTP", "_KAFKA", "_SCHEMA_REGISTRY")
    invented = {
        f"SPANJOIN{service}_{name}": value
        for service in services
        for name, value in {
            "SERVICE_HOST": "10.0.0.1",
            "SERVICE_PORT": "8080",
            "SERVICE_PORT_HTTP": "8080",
            "PORT": "tcp://10.0.0.1:8080",
            "PORT_8080_TCP": "tcp://10.0.0.1:8080",
            "PORT_8080_TCP_ADDR": "10.0.0.1",
            "PORT_8080_TCP_PORT": "8080",
            "PORT_8080_TCP_PROTO": "tcp",
        }.items()
    }
    assert job(tmp_path, environ=invented) == job(tmp_path)
