"""A run that grows in front of whoever looks at it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from kit.browser import Looking, serving
from kit.run_page import Look, chosen, opened, turn
from onrecord.core.events import Completed
from onrecord.journal.journal import Journal
from onrecord.store.factory import open_store


@pytest.fixture
def journal(store: str) -> Iterator[Journal]:
    opened_store = open_store(store)
    with Journal.create(opened_store, "live", facts={"agent": "tester"}) as growing:
        growing.append(turn(0))
        yield growing
    opened_store.close()


def test_it_grows_and_ends(look: Look, journal: Journal) -> None:
    page = opened(look(), "/runs/live")
    assert page.locator("#events").inner_text() == "10"
    journal.append(turn(1))
    page.locator("#events", has_text="20").wait_for()
    page.locator("#event-11", has_text="ask").wait_for()
    assert page.locator("#scrubber").get_attribute("max") == "20"
    journal.append([Completed(output="done")])
    page.locator("#status", has_text="completed").wait_for()
    page.get_by_text("verified 21 of 21").wait_for()
    page.locator("#event-21", has_text="completed").wait_for()


def test_nothing_jumps_unless_the_reader_is_at_the_end(look: Look, journal: Journal) -> None:
    for number in range(1, 10):
        journal.append(turn(number))
    page = opened(look(), "/runs/live")
    page.locator("#fall").evaluate("box => { box.scrollTop = 600; }")
    page.locator("#event-25").wait_for()
    journal.append(turn(10))
    page.locator("#events", has_text="110").wait_for()
    page.locator("#fall[aria-rowcount='110']").wait_for()  # its end is where it will be
    assert page.locator("#fall").evaluate("box => box.scrollTop") == 600
    page.locator("#fall").evaluate("box => { box.scrollTop = box.scrollHeight; }")
    page.locator("#event-110").wait_for()
    journal.append(turn(11))
    page.locator("#event-120").wait_for()
    assert page.locator("#event-120").is_visible()


def test_whoever_looks_at_an_event_goes_on_looking_at_it(look: Look, journal: Journal) -> None:
    page = opened(look(), "/runs/live?seq=3")
    journal.append(turn(1))
    page.locator("#events", has_text="20").wait_for()
    assert chosen(page) == 3
    assert page.locator("#at").input_value() == "3"


def test_an_open_request_gets_its_answer(look: Look, journal: Journal) -> None:
    request, answer, *_ = turn(1)
    journal.append([request])
    page = opened(look(), "/runs/live?seq=11")
    page.locator("#event-11", has_text="open").wait_for()
    journal.append([answer])
    page.locator("#event-12", has_text="answered").wait_for()
    page.wait_for_function("!document.getElementById('event-11').textContent.includes('open')")


def test_a_page_that_lost_its_server_says_so(browser: Browser, store: str, journal: Journal) -> None:
    with serving(store) as served:
        context = browser.new_context()
        page = opened(Looking(context, served), "/runs/live")
        page.locator("#event-1", has_text="ask").wait_for()
    with socket.socket() as somebody_else:  # whoever has the port now answers nothing that a page could use
        somebody_else.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        somebody_else.bind(("127.0.0.1", int(served.url.rsplit(":", 1)[1])))
        somebody_else.listen()
        answering = threading.Thread(target=_refuse, args=(somebody_else,), daemon=True)
        answering.start()
        page.locator("#lost", has_text="Load it again").wait_for()
        context.close()
        somebody_else.shutdown(socket.SHUT_RDWR)
    answering.join(10)


def _refuse(listening: socket.socket) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection:
            connection.recv(65536)
            body = b'{"error": {"code": "not_authorised", "message": "this request has no valid token", "hint": ""}}'
            head = b"HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nConnection: close\r\n"
            connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def test_who_does_not_look_is_not_told(look: Look, journal: Journal) -> None:
    page = opened(look(), "/runs/live")
    hide = "value => { Object.defineProperty(document, 'hidden', { value, configurable: true });"
    page.evaluate(hide + " document.dispatchEvent(new Event('visibilitychange')); }", True)
    journal.append(turn(1))
    page.wait_for_timeout(700)
    assert page.locator("#events").inner_text() == "10"
    page.evaluate(hide + " document.dispatchEvent(new Event('visibilitychange')); }", False)
    page.locator("#events", has_text="20").wait_for()
