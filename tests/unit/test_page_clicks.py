"""The page in somebody's hands: a key, two rows, links to other workers, the mouse and the keys."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from app.access import Access
from schemas.partition import lane_of
from schemas.records import Kind, Side
from tests.browser import FOUND
from tests.driver import Driver
from tests.worker_page import Worker, other_lane, row

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(FOUND is None, reason="no Chromium on this machine")

OTHER_LANE: Final = 3
OTHER_KEY: Final = next(k for k in map(str, range(99)) if lane_of(k.encode(), 4) == OTHER_LANE)


def worker_of(number: int, key: bytes) -> Worker:
    """A worker whose key has a match, and a row that was retracted."""
    worker = Worker(number=number)
    worker.take(
        (Side.LEFT, row("l1", 10, 30, key=key)),
        (Side.RIGHT, row("-7", 25, 40, key=key)),
        (Side.RIGHT, row("r2", 60, 65, key=key)),
        (Side.LEFT, row("l3", 20, 50, key=key)),
        (Side.LEFT, row("l3", 20, 50, kind=Kind.RETRACT, key=key)),
    )
    return worker


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = worker_of(lane_of(b"k", 4), b"k")
    assert worker.number != OTHER_LANE
    yield worker
    worker.server.close()


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with Driver(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.fixture
def page(worker: Worker, window: Driver) -> Driver:
    """The page of the worker, as it begins."""
    window.open("about:blank")
    window.open(worker.url)
    window.await_("document.querySelectorAll('#lanes tbody tr').length > 0")
    return window


def until_refreshed() -> None:
    """As long as the page needs to show everything anew."""
    time.sleep(2.5)


def choose_key(page: Driver, key: str) -> None:
    page.click("#key")
    page.write(key)
    page.press("Enter")


def first_width(page: Driver) -> str:
    """Of the first row in the picture, once that is drawn for the place it has."""
    page.await_(
        "document.querySelector('#picture svg').viewBox.baseVal.width === "
        "document.querySelector('#picture').clientWidth"
    )
    return str(page.look("document.querySelector('g.row rect').getAttribute('width')"))


def shape(side: str, row_id: str) -> str:
    return f'g.row[aria-label^="{side} {row_id},"]'


def chosen(page: Driver) -> object:
    return page.look("[...document.querySelectorAll('g.row.chosen')].map(g => g.ariaLabel[0])")


def test_a_key_and_two_rows_with_the_mouse(page: Driver) -> None:
    choose_key(page, "k")
    page.await_("document.querySelectorAll('g.row').length === 4")
    assert page.text("#key-sums") == "2 left rows, 2 right rows, 1 match among them"
    page.click(shape("left", "l1"))
    assert page.look("document.querySelector('#why').hidden"), "one row alone tells nothing"
    page.click(shape("right", "r2"))
    page.await_("!document.querySelector('#why').hidden")
    assert "left l1 ends at 30, and right r2 begins at 60, 30 later." in page.text("#why ol")
    page.click(shape("right", "-7"))
    page.await_("document.querySelector('#why ol').innerText.includes('L:l1|R:-7')")
    assert page.text("#command") == "spanjoin explain -c job.toml --key k -- l1 -7"
    assert page.look("location.hash") == "#key=k&left=l1&right=-7"
    assert chosen(page) == ["l", "r"]
    page.click(shape("left", "l1"))
    page.await_("document.querySelector('#why').hidden")
    assert page.look("location.hash") == "#key=k&right=-7"


def test_what_is_in_the_address_is_chosen_in_another_window(worker: Worker, page: Driver) -> None:
    page.open(f"{worker.url}#key=k&lane={worker.number}&left=l1&right=r2")
    page.await_("!document.querySelector('#why').hidden")
    assert page.look("document.querySelector('#key').value") == "k"
    wanted = f"spanjoin explain -c job.toml --key k --lane {worker.number} l1 r2"
    assert page.text("#command") == wanted


def test_two_rows_with_the_keyboard(page: Driver) -> None:
    choose_key(page, "k")
    page.await_("document.querySelectorAll('g.row').length === 4")
    # One row is reached by Tab, the others by arrows.
    page.look("document.querySelector('g.row[tabindex=\"0\"]').focus()")
    page.press("Enter", "ArrowDown", "ArrowRight", "Enter")
    page.await_("!document.querySelector('#why').hidden")
    assert chosen(page) == ["l", "r"]
    assert page.look("document.activeElement.ariaPressed") == "true", "the focus stays"


def test_the_table_and_the_part_of_time(page: Driver) -> None:
    choose_key(page, "k")
    page.await_("document.querySelectorAll('g.row').length === 4")
    page.click("#as-table summary")
    page.await_("document.querySelectorAll('#rows tbody tr').length === 4")
    assert "retracted" in page.text("#rows")
    for number in (1, 3):
        page.click(f"#rows tbody tr:nth-child({number}) button")
    page.await_("!document.querySelector('#why').hidden")
    before = first_width(page)
    page.click("#closer")
    page.click("#closer")
    assert first_width(page) != before
    page.click("#all")
    assert first_width(page) == before


def test_dates_at_the_edge_are_whole(window: Driver) -> None:
    worker = Worker(unit="ms")
    day = 1_740_960_000_000
    worker.take(*((side, row("x", day + 1, day + 41)) for side in Side))
    try:
        window.open(f"{worker.url}#key=k")
        window.await_("document.querySelectorAll('g.row').length === 2")
    finally:
        worker.server.close()
    assert "2025-03-03 00:00:00" in window.look("document.querySelector('#picture').textContent")
    assert window.look(
        "(box => [...document.querySelectorAll('#picture text')].every(text => (own => own.left >= "
        "box.left && own.right <= box.right)(text.getBoundingClientRect())))"
        "(document.querySelector('#picture svg').getBoundingClientRect())"
    )


@pytest.fixture
def there(worker: Worker, page: Driver) -> Iterator[Worker]:
    """Another worker, which the page knows of."""
    other = worker_of(OTHER_LANE, OTHER_KEY.encode())
    address = other.url.removeprefix("http://").removesuffix("/")
    worker.others = [other_lane(OTHER_LANE, address=address)]
    page.open("about:blank")
    open_with_links(page, worker)
    yield other
    other.server.close()


def open_with_links(page: Driver, worker: Worker) -> None:
    page.open(worker.url)
    page.await_("document.querySelector('#lanes a') !== null")


def test_links_lead_to_other_workers(worker: Worker, page: Driver, there: Worker) -> None:
    choose_key(page, "k")
    page.await_("document.querySelectorAll('g.row').length === 4")
    page.open(f"{worker.url}#key={OTHER_KEY}")
    page.await_("document.querySelector('#key-note a') !== null")
    assert page.text("#key-note") == f"Lane {OTHER_LANE} is on job-host-2."
    assert page.look("document.querySelector('#timeline').hidden"), "that was another key's"
    page.click("#key-note a")
    page.await_(f"location.href === '{there.url}#key={OTHER_KEY}'")
    page.await_("document.querySelectorAll('g.row').length === 4")

    open_with_links(page, worker)
    page.click("#lanes a")
    page.await_(f"location.href === '{there.url}'")


def test_what_is_under_the_mouse_stays_while_the_page_is_refreshed(
    worker: Worker, page: Driver, there: Worker
) -> None:
    page.look("document.querySelector('#lanes a').focus()")
    until_refreshed()
    assert page.look("document.activeElement.matches('#lanes a')"), "the focus stays"
    page.click("#lanes a", held=until_refreshed)
    page.await_(f"location.href === '{there.url}'")

    open_with_links(page, worker)
    choose_key(page, OTHER_KEY)
    page.await_("document.querySelector('#key-note a') !== null")
    page.click("#key-note a", held=until_refreshed)
    page.await_(f"location.href === '{there.url}#key={OTHER_KEY}'")


def test_rows_can_be_clicked_while_others_come(worker: Worker, page: Driver) -> None:
    choose_key(page, "k")
    page.await_("document.querySelectorAll('g.row').length === 4")
    page.click("#as-table summary")

    def come(row_id: str) -> None:
        worker.take((Side.RIGHT, row(row_id, 11, 12)))
        until_refreshed()

    for selector, row_id, count in (("g.row", "r8", 5), ("#rows tbody button", "r9", 6)):
        page.click(selector, held=partial(come, row_id))
        page.await_("new URLSearchParams(location.hash.slice(1)).get('left') === 'l1'")
        page.await_(f"document.querySelectorAll('g.row').length === {count}")
        page.click(selector)
        page.await_("new URLSearchParams(location.hash.slice(1)).get('left') === null")
    assert page.look("document.querySelectorAll('#rows tbody tr').length") == 6


def test_only_lanes_in_trouble(worker: Worker, page: Driver) -> None:
    worker.others = [other_lane(OTHER_LANE, phase="restoring")]
    page.open("about:blank")
    page.open(worker.url)
    page.await_("document.querySelectorAll('#lanes tbody tr').length === 2")
    page.click("#only-trouble")
    page.await_("document.querySelectorAll('#lanes tbody tr').length === 1")
    assert "restoring" in page.text("#lanes tbody")


def test_a_token_is_given(window: Driver) -> None:
    worker = Worker(access=Access("0123456789abcdef"))
    try:
        window.open(worker.url)
        window.await_("!document.querySelector('#login').hidden")
        window.click("#token")
        window.write("another")
        window.press("Enter")
        window.await_("document.querySelector('#refused').innerText === 'That is not it.'")
        window.look("document.querySelector('#token').select()")
        window.write("0123456789abcdef")
        window.press("Enter")
        window.await_("document.querySelector('#login').hidden")
        window.await_("document.querySelectorAll('#lanes tbody tr').length === 1")
    finally:
        worker.server.close()
