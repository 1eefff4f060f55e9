"""The parts of the benchmark that would be wrong without anybody noticing."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from bench.curves.events import Setting, events
from bench.curves.lanes import Lanes
from bench.curves.picture import Axis, Line, draw
from bench.kafka_streams import running_tasks
from bench.restore.kinds import KafkaStreams, Spanjoin
from bench.runs import Figures
from bench.targets import Target, ratio, table
from bench.workload import Workload
from schemas.match_id import match_id

if TYPE_CHECKING:
    from pathlib import Path


def figures(records: int, seconds: float) -> Figures:
    return Figures(
        records=records, part=1, seconds=seconds, cpu_seconds=1, peak_mb=1, expected=1, found=1
    )


def test_the_expected_matches_are_those_of_a_nested_loop() -> None:
    workload = Workload(records=300, keys=5, lanes=2, warm_up=100)
    left, right = workload.points
    expected = {
        match_id(f"l{number}", f"r{other}")
        for number, key, ts in left
        for other, other_key, other_ts in right
        if key == other_key and abs(ts - other_ts) <= 10_000
    }
    assert workload.matches == expected


def test_what_warms_up_comes_before_what_is_measured() -> None:
    workload = Workload(records=300, keys=5, lanes=2, warm_up=100)
    (warm_left, warm_right), (left, right) = workload.sent()
    assert len(warm_left) + len(warm_right) == 100
    assert len(left) + len(right) == 300


def test_a_ratio_is_the_median_of_the_rounds_own() -> None:
    results = {"a": [figures(10, 1), figures(10, 2), figures(10, 10)], "b": [figures(10, 2)] * 3}
    assert ratio(results, "a", "b") == pytest.approx(1.0)
    assert ratio(results, "a", "c") is None


def test_a_target_that_was_not_measured_is_not_met() -> None:
    assert Target("x", None, 2).met is None
    assert Target("x", 2, 2).met is True
    assert Target("x", 2.1, 2, at_least=False).met is False
    assert "**missed**" in table([Target("x", 1, 2)])


def test_a_process_has_tasks_only_while_it_is_running(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("STATE RUNNING 1\nTASKS 2 0_0 0_1\n")
    assert running_tasks(log) == 2
    log.write_text("STATE RUNNING 1\nTASKS 2 0_0 0_1\nSTATE REBALANCING 3\n")
    assert running_tasks(log) == 0


def test_how_long_a_restore_took_is_read_from_the_logs(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "RESTORING changelog 0 0 10 1000\nRESTORING changelog 1 0 10 1500\n"
        "RESTORED changelog 0 10 2000\nSTATE RUNNING 2900\nTASKS 3000 0_0\n"
    )
    assert KafkaStreams().restored(log) == pytest.approx(2.0)
    log.write_text(
        '{"event": "assigned", "timestamp": "2026-01-01T00:00:00Z"}\n'
        '{"event": "restore", "timestamp": "2026-01-01T00:00:01Z"}\n'
        '{"event": "running", "timestamp": "2026-01-01T00:00:03Z"}\n'
    )
    assert Spanjoin().restored(log) == pytest.approx(2.0)
    assert Spanjoin().held(log) == pytest.approx(3.0)


@pytest.mark.parametrize("keys", [1, 100, 1_000])
def test_a_hot_key_has_as_many_matches_as_many_keys(tmp_path: Path, keys: int) -> None:
    setting = Setting(keys=keys, reach=keys, fill=0, records=20_000, lanes=2, turn=1_000)
    lanes = Lanes(setting, tmp_path)
    coming = events(setting)
    while batch := list(islice(coming, setting.turn)):
        lanes.step(lanes.polled(batch))
    lanes.close()
    assert lanes.matches / setting.records == pytest.approx(0.5, abs=0.05)
    assert lanes.rows > 0


def test_a_picture_is_whole() -> None:
    points = [(1, 2.0, 1.5, 2.5), (10, 3.0, 3.0, 3.0)]
    lines = [Line("one & all", points), Line("points", points, joined=False)]
    picture = ET.fromstring(draw("Costs", Axis("x", factors=True), Axis("us"), lines))
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}circle"))) == 4
