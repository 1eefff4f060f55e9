from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.kafka.cluster import Topic
from app.topics import SPARE_BYTES, Plan, describe, plan
from tests.unit.jobs import job

if TYPE_CHECKING:
    from pathlib import Path

DEFAULTS = {
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "max.message.bytes": "1000",
}
LARGE = str(1000 + SPARE_BYTES)


def topic(partitions: int, **settings: str) -> Topic:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return Topic("id", partitions, DEFAULTS | named)


def all_five(partitions: int = 3) -> dict[str, Topic]:
    return {
        "l": topic(partitions),
        "r": topic(partitions),
        "out": topic(7, cleanup_policy="compact"),
        "job-changelog": topic(partitions, retention_ms="-1", max_message_bytes=LARGE),
        "job-rejects": topic(partitions, max_message_bytes=LARGE),
    }


def planned(
    directory: Path, found: dict[str, Topic], partitions: int | None = None, *, inputs: bool = True
) -> Plan:
    return plan(job(directory), found, partitions, create_inputs=inputs)


def test_all_five_are_created_as_they_should_be(tmp_path: Path) -> None:
    made = planned(tmp_path, {}, 4)
    assert made.problems == []
    assert {spec.name: (spec.partitions, dict(spec.settings)) for spec in made.create} == {
        "l": (4, {"retention.ms": "-1"}),
        "r": (4, {"retention.ms": "-1"}),
        "out": (4, {"cleanup.policy": "compact"}),
        "job-changelog": (
            4,
            {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"},
        ),
        "job-rejects": (4, {}),
    }
    assert (
        'left topic "l" created with 4 partitions, retention.ms=-1 (its records are kept'
        in (describe(job(tmp_path), made)[0])
    )


def test_nothing_to_do(tmp_path: Path) -> None:
    made = planned(tmp_path, all_five(), 3)
    assert made == Plan(3, [], [], [], [])
    assert describe(job(tmp_path), made) == [
        'left topic "l" exists',
        'right topic "r" exists',
        'output topic "out" exists',
        'changelog topic "job-changelog" exists',
        'rejects topic "job-rejects" exists',
    ]


def test_the_inputs_decide_about_the_others(tmp_path: Path) -> None:
    found = {"l": topic(3), "r": topic(3, max_message_bytes="5000")}
    made = planned(tmp_path, found, inputs=False)
    assert made.lanes == 3
    created = {spec.name: spec for spec in made.create}
    assert set(created) == {"out", "job-changelog", "job-rejects"}
    assert created["job-changelog"].partitions == created["job-rejects"].partitions == 3
    for name in ("job-changelog", "job-rejects"):
        assert created[name].settings["max.message.bytes"] == str(5000 + SPARE_BYTES)


def test_one_input_decides_about_the_other(tmp_path: Path) -> None:
    made = planned(tmp_path, {"r": topic(5)})
    assert ("l", 5) in [(spec.name, spec.partitions) for spec in made.create]


@pytest.mark.parametrize(
    ("found", "partitions", "inputs", "message"),
    [
        ({}, None, True, 'neither left topic "l" nor right topic "r" exists: say how many'),
        ({}, None, False, 'left topic "l" does not exist: create it'),
        ({"l": topic(1)}, None, False, 'right topic "r" does not exist: create it'),
        (
            {"l": topic(3), "r": topic(4)}, None, False,
            'left topic "l" has 3 partitions, right topic "r" has 4 partitions',
        ),
        (
            {"l": topic(1), "r": topic(2)}, None, True,
            'left topic "l" has 1 partition, right topic "r" has 2 partitions',
        ),
        (all_five(), 4, True, 'left topic "l" has 3 partitions, not 4'),
        (
            all_five() | {"job-changelog": topic(2, retention_ms="-1")}, None, False,
            "must not change under existing state; move it with `spanjoin reshard --partitions 3`",
        ),
        (
            all_five() | {"job-rejects": topic(4)}, None, False,
            'rejects topic "job-rejects" has 4 partitions, but the inputs have 3',
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "-",
)  # fmt: skip
def test_what_a_person_must_change(
    tmp_path: Path, found: dict[str, Topic], partitions: int | None, inputs: bool, message: str
) -> None:
    made = planned(tmp_path, found, partitions, inputs=inputs)
    assert made.create == []
    assert message in "; ".join(made.problems)


@pytest.mark.parametrize(
    ("found", "topic", "message"),
    [
        (
            {"out": topic(1)}, "out",
            "change it with kafka-configs.sh --bootstrap-server HOST:PORT --alter --topic out ",
        ),
        (
            {"job-changelog": topic(3)}, "job-changelog",
            'changelog topic "job-changelog" has retention.ms=604800000, but must have',
        ),
        (
            {"job-changelog": topic(3, cleanup_policy="compact", retention_ms="-1")},
            "job-changelog", "has cleanup.policy=compact, but must have cleanup.policy=delete",
        ),
    ],
    ids=["output", "changelog's retention", "changelog's policy"],
)  # fmt: skip
def test_what_differs_keeps_nothing_from_being_created(
    tmp_path: Path, found: dict[str, Topic], topic: str, message: str
) -> None:
    there = all_five() | found
    del there["job-rejects"]
    made = planned(tmp_path, there, inputs=False)
    assert made.problems == []
    assert [spec.name for spec in made.create] == ["job-rejects"]
    (difference,) = made.differences
    assert difference.topic == topic
    assert message in difference.text


def test_what_is_worth_knowing(tmp_path: Path) -> None:
    found = all_five() | {"job-rejects": topic(3)}
    made = planned(tmp_path, found)
    assert made.problems == []
    (note,) = made.notes
    assert note.startswith(f'rejects topic "job-rejects" has max.message.bytes=1000; {LARGE} would')
    assert describe(job(tmp_path), made)[-1].startswith("note: rejects topic")
