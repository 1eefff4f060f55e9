from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.config import load_config
from app.errors import EXIT_USAGE, UsageError
from schemas.records import Side
from tests.unit.jobs import MINIMAL, job, write_job

if TYPE_CHECKING:
    from pathlib import Path

FULL = """\
name = "flights-weather"
start = "latest"
unit = "us"
[kafka]
"bootstrap.servers" = "localhost:9092"
"client.id" = "me"
[kafka.consumer]
"fetch.min.bytes" = 1
[kafka.producer]
"linger.ms" = 7
[left]
topic = "flights"
schema = "flight.avsc"
fields = { id = "number", ts = "departure", start = "departure", end = "arrival" }
time_unit = "us"
[right]
topic = "weather"
[output]
topic = "flights-weather"
[schema]
format = "avro"
[join]
allowed_lateness = "10s"
max_interval = 9
max_future = "off"
idle_timeout = "1m"
max_skew = "1h"
type = "inner"
[turn]
max_records = 100
max_wait = "5ms"
[state]
dir = "there"
cache_memory = "1GiB"
cleanup_delay = "1h"
[http]
host = "0.0.0.0"
port = 8080
advertised = "me:8080"
[log]
format = "json"
level = "debug"
"""


def wrong(directory: Path, text: str, **environ: str) -> str:
    with pytest.raises(UsageError) as caught:
        load_config(write_job(directory, text), environ)
    assert caught.value.exit_code == EXIT_USAGE
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(directory / "job.toml"))
    return str(caught.value)


def with_line(table: str, line: str) -> str:
    """The minimal job with one more line in a table, or with that table."""
    if f"[{table}]" in MINIMAL:
        return MINIMAL.replace(f"[{table}]", f"[{table}]\n{line}")
    return line + "\n" + MINIMAL if not table else f"{MINIMAL}\n[{table}]\n{line}\n"


def without(key: str) -> str:
    return "\n".join(line for line in MINIMAL.splitlines() if not line.startswith(key))


def test_minimal_job_has_the_documented_defaults(tmp_path: Path) -> None:
    config = job(tmp_path)
    assert (config.name, config.start, config.unit) == ("job", "earliest", "ms")
    assert (config.left.topic, config.right.topic, config.output.topic) == ("l", "r", "out")
    assert (config.changelog_topic, config.rejects_topic) == ("job-changelog", "job-rejects")
    assert (config.lateness, config.max_interval) == (10_000, 43_200_000)
    assert (config.max_future, config.idle_timeout_ms, config.max_skew) == (86_400_000, None, 0)
    assert (config.turn.max_records, config.turn.max_wait_ms) == (10_000, 5)
    assert config.state.dir == tmp_path / "state"
    assert config.state.block_cache_bytes == 32_000_000
    assert config.state.windows_bytes == 224_000_000
    assert config.state.cleanup_delay_ms == 600_000
    assert (config.http.host, config.http.port, config.http.advertised) == ("127.0.0.1", 0, "")
    assert (config.log.format, config.log.level) == ("human", "info")
    assert config.consumer_properties() == {"bootstrap.servers": "localhost:9092"}


def test_every_setting_is_taken(tmp_path: Path) -> None:
    config = job(tmp_path, FULL)
    assert (config.name, config.start, config.unit) == ("flights-weather", "latest", "us")
    assert (config.lateness, config.max_interval) == (10_000_000, 9)
    assert (config.max_future, config.idle_timeout_ms) == (None, 60_000)
    assert config.max_skew == 3_600_000_000
    assert config.side(Side.LEFT).schema_file == tmp_path / "flight.avsc"
    assert config.side(Side.LEFT).fields.id == "number"
    assert config.side(Side.LEFT).fields.kind is None
    assert config.side(Side.RIGHT).fields.kind == "kind"
    assert (config.turn.max_records, config.turn.max_wait_ms) == (100, 5)
    assert config.state.dir == tmp_path / "there"
    assert config.state.windows_bytes == 7 << 27
    assert config.state.cleanup_delay_ms == 3_600_000
    assert config.http.advertised == "me:8080"
    common = {"bootstrap.servers": "localhost:9092", "client.id": "me"}
    assert config.admin_properties() == common
    assert config.consumer_properties() == {**common, "fetch.min.bytes": 1}
    assert config.producer_properties() == {**common, "linger.ms": 7}


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("name", "name"),
        ('"bootstrap.servers"', "kafka.bootstrap.servers"),
        ('topic = "l"', "left.topic"),
        ('topic = "r"', "right.topic"),
        ('topic = "out"', "output.topic"),
        ("allowed_lateness", "join.allowed_lateness"),
        ("max_interval", "join.max_interval"),
    ],
)
def test_a_missing_mandatory_key_is_named(tmp_path: Path, line: str, key: str) -> None:
    assert f"{key} is missing: " in wrong(tmp_path, without(line))


def test_an_empty_file_names_every_mandatory_key(tmp_path: Path) -> None:
    text = wrong(tmp_path, "")
    for key in (
        "name", "kafka.bootstrap.servers", "left.topic", "right.topic", "output.topic",
        "join.allowed_lateness", "join.max_interval",
    ):  # fmt: skip
        assert f"{key} is missing" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (with_line("", "nmae = 1"), "unknown key nmae (did you mean name?)"),
        (with_line("join", "max_intervall = 1"), "unknown key join.max_intervall"),
        (with_line("join", "max_intervall = 1"), "(did you mean join.max_interval?)"),
        (with_line("left", "shema = 'x'"), "(did you mean left.schema?)"),
        (with_line("left", "fields.key = 'x'"), "unknown key left.fields.key"),
        (with_line("nonsense", "a = 1"), "unknown key nonsense (known here: name, start, unit"),
        (with_line("turn", "size = 1"), "unknown key turn.size"),
    ],
)
def test_unknown_keys_and_tables_are_named(tmp_path: Path, text: str, message: str) -> None:
    assert message in wrong(tmp_path, text)


@pytest.mark.parametrize(
    ("table", "line", "message"),
    [
        ("", 'start = "now"', 'start must be "earliest" or "latest"'),
        ("", 'unit = "s"', "unit must be "),
        ("", 'left = "x"', "left must be a table"),
        ("turn", "max_records = 0", "turn.max_records must be greater than or equal to 1"),
        ("turn", "max_records = true", "turn.max_records must be an integer, but is True"),
        ("turn", "max_records = 2.0", "turn.max_records must be an integer, but is 2.0"),
        ("turn", 'max_wait = "1 week"', "turn.max_wait must be an integer, or a duration"),
        ("state", 'cache_memory = "lots"', "state.cache_memory must be a number of bytes"),
        ("state", "cache_memory = 0", "state.cache_memory must be greater than 0"),
        ("state", "dir = 1", "state.dir must be a path"),
        ("http", "port = 70000", "http.port must be less than or equal to 65535"),
        (
            "http",
            'advertised = "foo"',
            "http.advertised must be host:port, with a port up to 65535",
        ),
        (
            "http",
            'advertised = ":80"',
            "http.advertised must be host:port, with a port up to 65535",
        ),
        ("http", 'advertised = "h:65536"', "http.advertised must be host:port, with a port up to"),
        ("http", "port = -1", "http.port must be greater than or equal to 0"),
        ("log", 'level = "loud"', "log.level must be "),
        ("schema", 'format = "xml"', 'schema.format must be "avro"'),
        ("join", 'type = "outer"', 'join.type must be "inner"'),
        ("join", 'type = "outer"', '"right" or "full", but is \'outer\''),
        ("join", "max_future = -1", "join.max_future must not be negative, but is -1"),
        ("join", 'idle_timeout = "0s"', "join.idle_timeout must be greater than 0"),
        ("join", "max_skew = 1.5", "join.max_skew must be an integer, or a duration"),
        ("left", 'time_unit = "us"', 'left.time_unit is "us", finer than unit = "ms": digits'),
        ("left", 'time_unit = "none"', 'left.time_unit is "none", which cannot be turned into'),
        ("left", 'time_unit = "m"', "left.time_unit must be one of"),
        ("left", "time_unit = {}", "left.time_unit must be one of"),
        ("left", 'time_unit = { id = "s" }', "left.time_unit must be one of"),
        ("left", 'time_unit = { ts = "ns" }', 'left.time_unit is "ns", finer than unit = "ms"'),
        ("left", 'time_unit = "rfc3339"', 'left.time_unit is "rfc3339", which only JSON has'),
        ("left", 'kinds = { c = "upsert" }', 'left.kinds.c must be "insert", "retract" or'),
        ("schema", 'format = "registry"', "schema.registry.url is missing"),
        ("schema", 'registry.url = "http://localhost"', 'needs schema.format = "registry"'),
        ("left", 'fields.id = "x"\nkinds.c = "insert"\nschema = "a.avsc"', "left.kinds says what"),
        ("kafka", "consumer = 1", "kafka.consumer must be a table"),
        ("kafka", "x = 1.5", "kafka.x must be a string, an integer, true or false"),
        ("kafka", "x = [1]", "kafka.x must be a string, an integer, true or false"),
    ],
)
def test_wrong_values_are_named(tmp_path: Path, table: str, line: str, message: str) -> None:
    text = with_line(table, line)
    if line.startswith("left"):
        text = text.replace('[left]\ntopic = "l"\n', "")
    assert message in wrong(tmp_path, text)


@pytest.mark.parametrize("key", ["allowed_lateness", "max_interval"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("-1", "must not be negative, but is -1"),
        ('"-1s"', "must not be negative, but is -1s"),
        ("1.5", "must be an integer, or a duration"),
        ("true", "must be an integer, or a duration"),
        ('"10"', None),
        ("0", None),
        ('"10 s"', None),
        ('"1y"', "must be an integer, or a duration"),
    ],
)
def test_bounds(tmp_path: Path, key: str, value: str, message: str | None) -> None:
    text = without(key) + f"\n{key} = {value}\n"
    if message is None:
        job(tmp_path, text)
    else:
        assert f"join.{key} {message}" in wrong(tmp_path, text)


def test_bounds_that_leave_no_room_in_int64_are_refused(tmp_path: Path) -> None:
    text = without("max_interval") + f"\nmax_interval = {2**61}\n"
    assert "join.allowed_lateness + 4 x join.max_interval" in wrong(tmp_path, text)


def test_large_integers_are_exact(tmp_path: Path) -> None:
    text = without("max_interval") + f"\nmax_interval = {2**53 + 1}\n"
    assert job(tmp_path, text).max_interval == 2**53 + 1
    assert (
        job(tmp_path, environ={"SPANJOIN_JOIN__MAX_INTERVAL": str(2**53 + 1)}).max_interval
        == 2**53 + 1
    )


def test_unit_none_takes_integers_only(tmp_path: Path) -> None:
    text = 'unit = "none"\n' + MINIMAL
    message = wrong(tmp_path, text)
    assert 'join.allowed_lateness must be an integer because unit = "none"' in message
    assert 'join.max_interval must be an integer because unit = "none"' in message
    numbers = text.replace('"10s"', "10").replace('"12h"', "50")
    config = job(tmp_path, numbers)
    assert (config.lateness, config.max_interval, config.max_future) == (10, 50, None)
    assert config.now_in_unit(5) is None
    assert config.ticks_per_ms == 1
    assert "join.max_future must be" in wrong(tmp_path, numbers + "max_future = 5\n")


@pytest.mark.parametrize(("unit", "per_ms"), [("ms", 1), ("us", 1_000), ("ns", 1_000_000)])
def test_units(tmp_path: Path, unit: str, per_ms: int) -> None:
    config = job(tmp_path, f'unit = "{unit}"\n{MINIMAL}')
    assert config.lateness == 10_000 * per_ms
    assert config.max_future == 86_400_000 * per_ms
    assert config.now_in_unit(1_700_000_000_123.0) == 1_700_000_000_123 * per_ms
    assert config.ticks_per_ms == per_ms


def test_idle_timeout_is_in_the_events_unit_and_never_too_short(tmp_path: Path) -> None:
    text = f'unit = "us"\n{MINIMAL}idle_timeout = 1500\n'
    assert job(tmp_path, text).idle_timeout_ms == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MINIMAL.replace('"r"', '"l"'), 'left.topic and right.topic are both "l"'),
        (MINIMAL.replace('"out"', '"l"'), 'output.topic and left.topic are both "l"'),
        (MINIMAL.replace('"r"', '"job-changelog"'), 'are both "job-changelog"'),
        (MINIMAL.replace('"l"', '"job-rejects"'), 'are both "job-rejects"'),
        (MINIMAL.replace('"out"', '"job-changelog"'), 'are both "job-changelog"'),
        (MINIMAL.replace('"l"', '"a b"'), "left.topic must be letters"),
        (MINIMAL.replace('"l"', '""'), "left.topic must be letters"),
        (MINIMAL.replace('"l"', '".."'), "left.topic must be letters"),
        (MINIMAL.replace('"l"', f'"{"x" * 250}"'), "left.topic must have at most 249"),
        (MINIMAL.replace('"job"', '"a/b"'), "name must be letters"),
        (MINIMAL.replace('"job"', f'"{"x" * 240}"'), "name must have at most 239"),
    ],
)
def test_topics_must_be_legal_and_distinct(tmp_path: Path, text: str, message: str) -> None:
    assert message in wrong(tmp_path, text)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no\.toml: no such file; give the configuration"):
        load_config(tmp_path / "no.toml", {})
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load_config(tmp_path, {})
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b'name = "\xe9"')
    with pytest.raises(UsageError, match="is not UTF-8"):
        load_config(latin, {})
    assert "is not valid TOML: " in wrong(tmp_path, "name = \n")
    assert "line 1" in wrong(tmp_path, "name = \n")


def test_unquoted_properties_are_understood(tmp_path: Path) -> None:
    text = MINIMAL.replace('"bootstrap.servers"', "bootstrap.servers")
    assert job(tmp_path, text).bootstrap_servers == "localhost:9092"


def test_a_secret_is_never_repeated(tmp_path: Path) -> None:
    text = with_line("kafka", '"sasl.password" = ["hunter2"]')
    assert "hunter2" not in wrong(tmp_path, text)
