#!/usr/bin/env python3
"""Looks at the live page of a run with SPEAD heaps: tiles of heaps, the waterfall, mouse, layout.

The browser is steered as in page.py. The program is `fullcount run --source udp://127.0.0.1:0 --detector heap` with a page; this script is
the sender, with packets written here, so that every number on the page is known. The scenario `heaps` of the crate fullcount runs it.
Source: docs/heap.md.

Usage: tests/browser/heaps.py [--browser PATH] [--shots DIRECTORY] [--joined] -- PROGRAM [ARGUMENT ...]
The program must have detector.bins = detector.lines = 64, detector.sequence = [1, 1] and a short detector.heap_timeout. With --joined
its source is spead+udp://127.0.0.1:0?sequence=1,1&max_heap=4kB, which puts the heaps together and counts what never came.
"""

import re
import signal
import socket
import struct
import subprocess
import threading
import time

from access import check_axe
from page import PATIENCE_S, box, looking, read_options

# Cells of a line, lines, and margins of the picture in its canvas (picture.js).
BINS = LINES = 64
LEFT, RIGHT, TOP, BELOW = 52, 66, 8, 38
TOTAL, RATE = "#tile-total", "#tile-events"


def packet(number, length, offset, payload, items=()):
    """A packet of SPEAD-64-40; `items` are (immediate, id, value or address)."""
    items = [(1, 1, number), (1, 2, length), (1, 3, offset), (1, 4, len(payload)), *items]
    pointers = b"".join(struct.pack(">Q", i << 63 | id << 40 | value) for i, id, value in items)
    return bytes([0x53, 4, 3, 5, 0, 0]) + struct.pack(">H", len(items)) + pointers + payload


def descriptor():
    """Item 0x1000 is `power`, BINS numbers."""
    name, header = b"power", f"{{'descr': '>f4', 'fortran_order': False, 'shape': ({BINS},)}}".encode()
    body = name + header
    return packet(1, len(body), 0, body, [(1, 0x14, 0x1000), (0, 0x10, 0), (0, 0x11, 5), (0, 0x13, 5), (0, 0x12, 5), (0, 0x15, 5)])


def shown(b, tile):
    """Number and unit of a tile."""
    return re.fullmatch(r"([0-9.,–]+)\s*(.*)", b.text(f"{tile} p")).groups()


def wait_rate(b, rate, unit):
    """Waits until the tile shows this rate but for a tenth."""
    number = f"parseFloat(document.querySelector('{RATE} p').firstChild.textContent)"
    b.wait(f"Math.abs({number} / {rate} - 1) < 0.1 && document.querySelector('{RATE} small').innerText === '{unit}'", f"{rate} {unit}")


class Sender:
    """Heaps of one packet each; every one says what its array is."""

    def __init__(self, port):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect(("127.0.0.1", port))
        self.number = 0

    def send(self, values, part=None):
        """A heap with these values; of one with `part` only the first so many bytes of values."""
        self.number += 1
        data, about = struct.pack(f">{BINS}f", *values), descriptor()
        body = about + data
        items = [(0, 5, 0), (0, 0x1000, len(about))]
        sent = body if part is None else body[:len(about) + part]
        self.socket.send(packet(self.number, len(body), 0, sent, items))

    def ramp(self, values):
        for value in values:
            self.send([value] * BINS)
            time.sleep(0.002)


def picture(b, expression):
    """Of the waterfall's lines, as `d` with `w` x `h` points. A copy is read: reading the canvas itself again and again would change how it is drawn."""
    return b.js(f"""(() => {{ const c = document.querySelector('#plot-waterfall canvas');
        const [w, h] = [c.width - {LEFT + RIGHT}, c.height - {TOP + BELOW}];
        const g = new OffscreenCanvas(w, h).getContext('2d', {{ willReadFrequently: true }});
        g.drawImage(c, {LEFT}, {TOP}, w, h, 0, 0, w, h);
        const d = g.getImageData(0, 0, w, h).data; return {expression}; }})()""")


def picture_colours(b):
    return picture(b, "new Set(new Uint32Array(d.buffer)).size")


def wait_picture(b):
    """The numbers of heaps may be on the page before their picture."""
    end = time.monotonic() + PATIENCE_S
    while not picture_colours(b) > LINES / 2:
        assert time.monotonic() < end, (picture_colours(b), "a picture, not a blank")
        time.sleep(0.05)


def brightness(b, u, v):
    """At the share (u, v) of width and height."""
    return picture(b, f"(() => {{ const at = 4 * (Math.floor({v} * h) * w + Math.floor({u} * w)); return d[at] + d[at + 1] + d[at + 2]; }})()")


def check_waiting(b):
    b.wait("document.querySelector('#state')?.innerText === 'Waiting for data'", "a run that waits")
    b.wait(f"document.querySelector('{TOTAL} h3').innerText === 'Heaps'", "tiles of heaps")
    assert b.text(f"{RATE} h3") == "Heaps", "no events in a run of heaps"
    assert shown(b, TOTAL) == ("0", "complete"), shown(b, TOTAL)
    b.wait(f"document.querySelector('{RATE} p').innerText.startsWith('0')", "a rate of 0")
    assert b.js(f"document.querySelector('{TOTAL}').classList.contains('good')")


def check_whole(b, sender, shots):
    """The newest heap is on top, wherever its values lie; the numbers are those that were sent."""
    assert picture_colours(b) < 8, picture_colours(b)
    for values, brighter in [(range(1, LINES + 1), "above"), (range(LINES, 0, -1), "below")]:
        b.js("document.querySelector('#plot-waterfall').scrollIntoView({ block: 'center' }); 0")
        sender.ramp(values)
        newest = values[-1]
        b.wait(f"document.querySelector('{TOTAL} p').firstChild.textContent === '{sender.number}'", f"{sender.number} heaps")
        assert shown(b, TOTAL) == (str(sender.number), "complete"), shown(b, TOTAL)
        # Its readout says the value of a cell: that of the newest heap.
        x, y, w, h = box(b, "#plot-waterfall canvas")
        b.mouse("mouseMoved", x + LEFT + 3, y + TOP + 1)
        readout = "document.querySelector('#plot-waterfall .readout').innerText"
        b.wait(f"/cell 0\\s+heap 0\\s+value {newest}$/.test({readout})", f"{newest} as the value of the newest heap")
        b.mouse("mouseMoved", x + LEFT + 3, y + h - BELOW - 1)
        b.wait(f"/heap {LINES - 1}\\s+value {values[0]}$/.test({readout})", f"{values[0]} as the value of the oldest")
        b.mouse("mouseMoved", 1, 1)
        assert picture_colours(b) > LINES / 2, (picture_colours(b), "a picture, not a blank")
        above, below = (brightness(b, 0.5, v) for v in (0.05, 0.95))
        assert (above > below) == (brighter == "above") and abs(above - below) > 100, (brighter, above, below)
        b.shot(shots, f"heaps-{brighter}")
    # Along a line as well: its left half is lower.
    for n in range(LINES):
        sender.send([0] * (BINS // 2) + [100 + n] * (BINS // 2))
        time.sleep(0.002)
    b.wait(f"document.querySelector('{TOTAL} p').innerText.startsWith('{sender.number}')", "all heaps")
    end = time.monotonic() + PATIENCE_S
    while not brightness(b, 0.75, 0.5) > brightness(b, 0.25, 0.5) + 100:
        assert time.monotonic() < end, "the right half is never brighter"
        time.sleep(0.05)
    assert b.js(f"document.querySelector('{TOTAL}').classList.contains('good')")
    assert b.text(f"{TOTAL} span") == "all complete", b.text(f"{TOTAL} span")


def check_rate(b, sender):
    """The tile shows the heaps a second that are sent, by the sender's clock."""
    over, failed = threading.Event(), []

    def steady():
        begun, first = time.monotonic(), sender.number
        try:
            while not over.is_set():
                due = begun + (sender.number - first + 1) / 50
                if over.wait(max(0, due - time.monotonic())):
                    break
                sender.send([sender.number % 50] * BINS)
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=steady)
    thread.start()
    try:
        wait_rate(b, 50, "heaps/s")
        # The same over time; a run of heaps has no rate of events.
        b.wait("document.querySelector('#rates select').value === 'heaps_per_s'", "heaps over time")
        b.wait("/^Now (4[5-9]|5[0-5])([.][0-9]+)? heaps.s$/.test(document.querySelector('#rates .readout').innerText)", "50 heaps/s over time")
        offered = b.js("[...document.querySelectorAll('#rates option')].map((o) => o.innerText).join()")
        assert offered == "Heaps,Packets,Payload,Lost", offered
    finally:
        over.set()
        thread.join()
    assert not failed, failed
    # A rate of thousands, made by the browser's clock in the answers on their way in.
    b.js("""window.asked = window.fetch; window.fetch = async (path, more) => {
        const answer = await window.asked(path, more);
        if (path !== '/api/state' || !window.changed) return answer;
        const state = await answer.json();
        window.changed(state);
        return { ok: true, json: async () => state };
    }; const begun = Date.now();
    window.changed = (s) => { s.ledger.find((l) => l.name === 'heaps.complete').value = 1e6 + Math.floor((Date.now() - begun) * 7.5); }; 0""")
    wait_rate(b, 7.5, "k heaps/s")
    b.js("window.changed = null; 0")
    # The counter is smaller than before: the rate begins anew, and is 0 once nothing comes.
    b.wait(f"document.querySelector('{RATE} p').innerText.startsWith('0')", "a rate of 0 when nothing comes")


def check_incomplete(b, sender, shots):
    whole = sender.number
    sender.send([1] * BINS, part=100)
    # A packet of it is there, and its end never comes.
    b.wait(f"document.querySelector('{TOTAL}').classList.contains('bad')", "a tile that is red")
    b.wait(f"document.querySelector('{TOTAL} span').innerText === '1 incomplete'", "1 incomplete heap")
    assert shown(b, TOTAL) == (str(whole), "complete"), shown(b, TOTAL)
    red = b.js(f"getComputedStyle(document.querySelector('{TOTAL} p')).color")
    assert red == "rgb(185, 28, 28)", red
    assert b.text(f"{RATE} span") == "0 unfinished"
    # Numbers that are left out: those heaps never came.
    sender.number += 2
    sender.send([1] * BINS)
    note = "'1 incomplete, 2 never came'"
    b.wait(f"document.querySelector('{TOTAL} span').innerText === {note}", note)
    # No packet is missed by a number of its own, and no output lost an event.
    assert b.text("#state") == "Running, heaps lost", b.text("#state")
    assert b.text("#tile-lost span") == "but heaps are lost or incomplete", b.text("#tile-lost span")
    b.js("window.scrollTo(0, 0)")
    b.shot(shots, "heaps-incomplete")


def check_joined(b, sender, shots):
    """Heaps that the source misses, not the detector, are on the page in the same words."""
    sender.ramp(range(1, LINES + 1))
    b.wait(f"document.querySelector('{TOTAL} p').firstChild.textContent === '{sender.number}'", f"{sender.number} heaps")
    assert b.js(f"document.querySelector('{TOTAL}').classList.contains('good')")
    wait_picture(b)
    # The heaps behind those that never came close the gap: as many as the window has.
    sender.number += 2
    sender.ramp(range(LINES))
    b.wait(f"document.querySelector('{TOTAL} span').innerText === 'all complete, 2 never came'", "2 never came")
    assert b.js(f"document.querySelector('{TOTAL}').classList.contains('bad')"), "a tile that is red"
    assert b.text("#state") == "Running, heaps lost", b.text("#state")
    assert b.text("#tile-lost span") == "but heaps are lost or incomplete", b.text("#tile-lost span")
    # Above the source's max_heap: 4 kB.
    sender.number += 1
    sender.socket.send(packet(sender.number, 5000, 0, bytes(100)))
    b.wait(f"/^none incomplete, .*some thrown away$/.test(document.querySelector('{TOTAL} span').innerText)", "a heap thrown away")
    b.shot(shots, "heaps-joined")


def check_layout(b, shots):
    check_axe(b, "heaps")
    b.size(480, 1000)
    b.wait("innerWidth === 480", "a narrow window")
    assert b.js("document.documentElement.scrollWidth") <= 480, "nothing sticks out of a narrow window"
    b.shot(shots, "heaps-narrow", whole=True)
    b.size(1400, 1000)


def started(command):
    """The program, its page's address and its port, as it says them; its lines are read on, lest it waits for that."""
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    lines, url, port = [], None, None
    for line in server.stderr:
        lines.append(line)
        url = url or next(iter(re.findall(r"live page (http://\S+)", line)), None)
        port = port or next(iter(re.findall(r"^listening on \S+:(\d+)", line)), None)
        if url and port:
            threading.Thread(target=lambda: lines.extend(server.stderr), daemon=True).start()
            return server, url, int(port), lines
    server.kill()
    raise AssertionError(f"no page and port: {lines}")


def main():
    options = read_options(__doc__, ("--joined", {"action": "store_true", "help": "the source puts the heaps together"}))
    server, url, port, lines = started(options.server)
    with looking(options.browser, server, url) as browser:
        sender = Sender(port)
        check_waiting(browser)
        if options.joined:
            check_joined(browser, sender, options.shots)
        else:
            check_whole(browser, sender, options.shots)
            check_rate(browser, sender)
            check_incomplete(browser, sender, options.shots)
            check_layout(browser, options.shots)
        assert browser.complaints == [], browser.complaints
        server.send_signal(signal.SIGINT)
        # Something was lost, and the program says so.
        assert server.wait(PATIENCE_S) == 3, lines
    print(f"browser: the page of heaps is right ({sender.number} heaps)")


if __name__ == "__main__":
    main()
