#!/usr/bin/env python3
"""Looks at the live page of a readout unit: rate of events, streams, memory, and sources that are missing, stalled or throttling, in red.

The browser is steered as in page.py. The program is `fullcount run --source tcp://127.0.0.1:0 --detector fragments` with a page; this script
is the senders, with fragments written here, so that what is wrong with each source is known. The scenario `readout_page` of the crate fullcount
runs it. Source: docs/fragments.md.

Usage: tests/browser/readout.py [--browser PATH] [--shots DIRECTORY] -- PROGRAM [ARGUMENT ...]
The program must have detector.sources = 4.
"""

import signal
import socket
import struct
import threading
import time

from access import check_axe
from heaps import started, wait_rate
from page import PATIENCE_S, looking, read_options

SOURCES = 4
RATE = 100
RED = "rgb(185, 28, 28)"
READY, BUSY = 8, 4


def checksum(words):
    crc = 0xFFFF
    for byte in b"".join(struct.pack(">Q", word) for word in words):
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x8005 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def fragment(source, event, state):
    """One block with header, a word, and trailer."""
    event &= 0xFFFFFF
    words = [5 << 60 | event << 32 | source << 8, 0x0123456789ABCDEF, 0xA << 60 | 3 << 32 | state << 4]
    words[2] |= checksum(words) << 16
    return struct.pack(">QQ", 0x475A << 48 | 3 << 30 | 3, source << 32 | event) + struct.pack("<3Q", *words)


class Senders:
    """RATE events a second from now on; a source that was off sends what it owes once it is on."""

    def __init__(self, port):
        self.port, self.lock, self.over = port, threading.Lock(), threading.Event()
        self.streams, self.owed, self.state, self.silent = {}, [0] * SOURCES, [READY] * SOURCES, set()
        self.event, self.failed = 0, []
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            begun = time.monotonic()
            while not self.over.wait(1 / RATE):
                with self.lock:
                    self.event = int((time.monotonic() - begun) * RATE)
                    for source, stream in self.streams.items():
                        if source in self.silent:
                            continue
                        events = range(self.owed[source], self.event)
                        stream.sendall(b"".join(fragment(source, event, self.state[source]) for event in events))
                        self.owed[source] = self.event
        except OSError as error:
            self.failed.append(error)

    def connect(self, *sources):
        with self.lock:
            for source in sources:
                self.streams[source] = socket.create_connection(("127.0.0.1", self.port))

    def close(self, source):
        with self.lock:
            self.streams.pop(source).close()

    def set(self, source, *, silent=None, state=None):
        with self.lock:
            if silent is not None:
                (self.silent.add if silent else self.silent.discard)(source)
            if state is not None:
                self.state[source] = state

    def end(self):
        self.over.set()
        self.thread.join()
        assert not self.failed, self.failed


def row(source):
    return f"[...document.querySelectorAll('#readout tbody tr')].find((r) => r.cells[0].innerText === '{source}')"


def wait_about(b, text):
    b.wait(f"document.querySelector('#readout .about')?.innerText === '{text}'", text)


def check_wrong(b, source, word, badge):
    """The source stands first, in red, with the reason; the badge is red and says it as well."""
    wait_about(b, f"1 {word}")
    assert b.js("document.querySelector('#readout tbody tr').cells[0].innerText") == str(source)
    assert b.js(f"{row(source)}.cells[1].innerText").startswith(word), b.js(f"{row(source)}.innerText")
    for what in (f"{row(source)}.querySelector('b')", "document.querySelector('#readout .about b')", "document.querySelector('#state')"):
        assert b.js(f"getComputedStyle({what}).color") == RED, what
    assert b.js(f"{row(source)}.classList.contains('loss')")
    others = b.js("[...document.querySelectorAll('#readout tbody tr')].slice(1).every((r) => r.cells[1].innerText === 'in order')")
    assert others, b.js("document.querySelector('#readout tbody').innerText")
    assert b.text("#state") == badge, b.text("#state")


def check_well(b):
    wait_about(b, "all send")
    b.wait("document.querySelector('#state').innerText === 'Running'", "a badge that is green")
    assert b.js("document.querySelector('#state').classList.contains('good')")
    assert b.js("document.querySelectorAll('#readout tbody tr.loss').length") == 0
    assert f"Streams open: {SOURCES} of {SOURCES}" in b.text("#readout .facts"), b.text("#readout .facts")


def check_sources(b, senders, shots):
    # Nobody is there: all are missing.
    wait_about(b, f"{SOURCES} missing")
    assert b.text("#state") == "Waiting for data, sources missing", b.text("#state")
    senders.connect(0, 1, 2)
    b.wait("/Streams open: 3 of 4/.test(document.querySelector('#readout .facts').innerText)", "three streams")
    b.wait("document.querySelector('#state').innerText.startsWith('Running')", "data")
    check_wrong(b, 3, "missing", "Running, sources missing")
    # What the others send waits, and the page says in how much memory.
    b.wait("/wait: [0-9.]+ [kM]B, the oldest for [1-9]/.test(document.querySelector('#readout .facts').innerText)", "memory")
    b.shot(shots, "readout-missing")
    senders.connect(3)
    check_well(b)
    wait_rate(b, RATE, "events/s")
    senders.set(2, silent=True)
    check_wrong(b, 2, "stalled", "Running, sources stalled")
    b.shot(shots, "readout-stalled")
    senders.set(2, silent=False)
    check_well(b)
    senders.set(1, state=BUSY)
    check_wrong(b, 1, "throttling", "Running, sources throttling")
    senders.set(1, state=READY)
    check_well(b)
    senders.close(0)
    check_wrong(b, 0, "missing", "Running, sources missing")
    senders.connect(0)
    check_well(b)


def check_layout(b, shots):
    check_axe(b, "a readout unit")
    b.size(480, 1000)
    b.wait("innerWidth === 480", "a narrow window")
    assert b.js("document.documentElement.scrollWidth") <= 480, "nothing sticks out of a narrow window"
    b.shot(shots, "readout-narrow", whole=True)
    b.size(1400, 1000)


def main():
    options = read_options(__doc__)
    server, url, port, lines = started(options.server)
    with looking(options.browser, server, url) as browser:
        senders = Senders(port)
        try:
            check_sources(browser, senders, options.shots)
            senders.set(2, silent=True)
            wait_about(browser, "1 stalled")
            check_layout(browser, options.shots)
            senders.set(2, silent=False)
            check_well(browser)
        finally:
            senders.end()
        assert browser.complaints == [], browser.complaints
        server.send_signal(signal.SIGINT)
        assert server.wait(PATIENCE_S) in (0, 3), lines
    print(f"browser: the page of the readout unit is right ({senders.event} events)")


if __name__ == "__main__":
    main()
