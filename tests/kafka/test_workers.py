"""Several workers, coming and going in every way: the committed log stays exact."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.kafka.load import Load
from tests.kafka.streams import Stream, random_stream
from tests.kafka.workers import Worker, get, lanes_of

if TYPE_CHECKING:
    from tests.kafka.harness import Harness

STOPPED_WITHIN_S: Final = 10
GUESTS: Final = 3


def check(kafka: Harness, stream: Stream) -> None:
    """Once everything is taken: the whole log is as it must be, rejects included."""
    kafka.settle()
    stream.check_log(kafka.read(kafka.job.output))
    stream.check_rejects(kafka.read(kafka.job.rejects))


def shares(kafka: Harness) -> list[int]:
    """How many lanes each worker runs."""
    return [len(worker.running()) for worker in kafka.workers]


def stop(worker: Worker) -> None:
    """SIGTERM: in good order, and soon."""
    began = time.monotonic()
    assert worker.terminate() == 0, worker.tail()
    assert time.monotonic() - began < STOPPED_WITHIN_S


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers_gives_the_same_result(kafka: Harness, workers: int) -> None:
    lanes = 6
    kafka.create_topics(lanes)
    config = kafka.write_config()
    for _ in range(workers):
        kafka.start(config)
    kafka.await_running(*kafka.workers)
    kafka.await_(lambda: sum(shares(kafka)) == lanes, 60, lambda: str(shares(kafka)))
    stream = random_stream(workers, 15_000, keys=300, lanes=lanes, step=0.02)
    stream.send(kafka, kafka.job)
    check(kafka, stream)
    for worker in kafka.workers:
        stop(worker)


def test_workers_that_come_and_go_under_load_change_nothing(kafka: Harness) -> None:
    kafka.create_topics(5)
    config = kafka.write_config()
    stream = random_stream(11, 20_000, keys=400, lanes=5, step=0.02)
    first = kafka.start(config)
    with Load(kafka, stream, 9) as load:
        load.await_taken(0.05)
        second = kafka.start(config)
        kafka.await_running(second)
        third = kafka.start(config)
        kafka.await_running(third)
        stop(first)
        load.await_taken(0.5)
        fourth = kafka.start(config)
        stop(second)
        kafka.await_running(third, fourth)
        # All leave, and somebody else goes on.
        stop(third)
        stop(fourth)
        kafka.start(config)
    check(kafka, stream)


def test_workers_killed_under_load_change_nothing(kafka: Harness) -> None:
    kafka.create_topics(8)
    config = kafka.write_config(text="[turn]\nmax_records = 300\n")
    stream = random_stream(12, 30_000, keys=500, lanes=8, step=0.02)
    workers = [kafka.start(config) for _ in range(3)]

    def start_again(number: int) -> None:
        """Over the state it left behind."""
        directory = {"SPANJOIN_STATE__DIR": str(kafka.directory / f"state-{number + 1}")}
        workers[number] = kafka.start(config, environ=directory)

    with Load(kafka, stream, 12) as load:
        load.await_taken(0.1)
        workers[0].kill()
        load.await_taken(0.25)
        start_again(0)
        load.await_taken(0.35)
        workers[1].kill()
        start_again(1)
        load.await_taken(0.5)
        workers[0].kill()
        workers[2].kill()
        load.await_taken(0.7)
        workers[1].kill()
        shutil.rmtree(kafka.directory / "state-1")
        for number in range(3):
            start_again(number)
    check(kafka, stream)


@pytest.mark.parametrize(
    "seconds",
    [8, pytest.param(60, marks=[pytest.mark.long, pytest.mark.timeout(600)])],
)
def test_a_worker_that_comes_and_one_that_goes_every_second(kafka: Harness, seconds: int) -> None:
    """One that was there before stays; of the others none lives for long, and half are killed."""
    kafka.create_topics(8)
    config = kafka.write_config(text="[turn]\nmax_records = 300\n")
    stream = random_stream(16, 1_000 * seconds, keys=300, lanes=8, step=0.02)
    stays = kafka.start(config)
    kafka.await_running(stays)
    guests: list[Worker] = []
    with Load(kafka, stream, seconds):
        for number in range(seconds):
            due = time.monotonic() + 1
            guests.append(kafka.start(config))
            if len(guests) > GUESTS:
                guest = guests.pop(0)
                if number % 2:
                    guest.kill()
                else:
                    stop(guest)
            time.sleep(max(due - time.monotonic(), 0))
    for guest in guests:
        stop(guest)
    kafka.await_(lambda: len(stays.running()) == 8, 60, stays.tail)
    check(kafka, stream)


def test_a_worker_that_sleeps_through_its_session_adds_nothing(kafka: Harness) -> None:
    kafka.create_topics(4)
    config = kafka.write_config(text="[turn]\nmax_records = 300\n")
    stream = random_stream(13, 15_000, keys=300, lanes=4, step=0.02)
    sleeper = kafka.start(config)
    with Load(kafka, stream, 7) as load:
        load.await_taken(0.1)
        kafka.start(config)
        load.await_taken(0.2)
        sleeper.pause()
        load.await_taken(0.6)
        sleeper.resume()
    check(kafka, stream)
    for worker in kafka.workers:
        stop(worker)


def test_workers_of_the_newer_group_protocol(kafka: Harness) -> None:
    kafka.quick_session = False
    kafka.create_topics(4)
    config = kafka.write_config(text='[kafka.consumer]\n"group.protocol" = "consumer"\n')
    stream = random_stream(15, 12_000, keys=300, lanes=4, step=0.02)
    first = kafka.start(config)
    kafka.await_running(first)
    with Load(kafka, stream, 6) as load:
        second = kafka.start(config)
        kafka.await_(lambda: shares(kafka) == [2, 2], 60, lambda: str(shares(kafka)))
        load.await_taken(0.5)
        first.kill()
        kafka.await_(lambda: len(second.running()) == 4, 60, second.tail)
    check(kafka, stream)
    stop(second)


def test_workers_started_together_by_one_command(kafka: Harness) -> None:
    kafka.create_topics(4)
    stream = random_stream(14, 15_000, keys=300, lanes=4, step=0.02)
    parent = kafka.start(kafka.write_config(), "--workers", "2")
    with Load(kafka, stream, 3):
        kafka.await_(
            lambda: [len(lanes_of(parent.port + worker)) for worker in (0, 1)] == [2, 2],
            60,
            lambda: str([lanes_of(parent.port + worker) for worker in (0, 1)]),
        )
    check(kafka, stream)
    state = kafka.directory / "state-1"
    assert sorted(path.name for path in state.iterdir() if path.is_dir()) == ["1", "2"]
    stop(parent)
    assert [get(parent.port + worker, "/livez")[0] for worker in (0, 1)] == [0, 0]
