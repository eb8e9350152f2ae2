#!/usr/bin/env python3
"""Looks at the live page with a real browser: numbers, pictures, mouse, settings, loss of the server.

Starts the program that serves the page (the example `page` of fullcount-out: made-up neutrons, some
packets lost) and headless Chromium, and steers the browser over its debugging pipe, so that only the
Python standard library is needed. Checks as well that the page asks nobody but its server and that
the console stays empty. `cargo test -p fullcount-out --test browser` runs it. Without Chromium it prints
`skipped: ...` and succeeds, except where CI=true. Source: docs/architecture.md (live page).

Usage: tests/browser/page.py [--browser PATH] [--shots DIRECTORY] -- PROGRAM [ARGUMENT ...]
The program prints the page's address on a line of its own and serves it until it is ended.
"""

import argparse
import base64
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

from access import check_axe, check_keys, check_menus, key, zoom_of

# Everything here happens within a second or two; the rest is for a machine that does other work.
PATIENCE_S = 40


def find_browser():
    names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
    return next((p for p in map(shutil.which, names) if p), None)


class Browser:
    """Chromium on a pipe: messages are JSON, each ended by a NUL byte."""

    def __init__(self, program, profile):
        to_read, self.write_end = os.pipe()
        self.read_end, to_write = os.pipe()

        def place_pipes():
            # The browser reads from 3 and writes to 4; via high numbers, lest one covers the other.
            os.dup2(to_read, 100)
            os.dup2(to_write, 101)
            os.dup2(100, 3)
            os.dup2(101, 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
             "--no-first-run", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--disable-dev-shm-usage", f"--user-data-dir={profile}",
             "--remote-debugging-pipe", "about:blank"],
            preexec_fn=place_pipes, close_fds=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.number, self.rest = 0, b""
        self.requests, self.complaints = [], []
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def receive(self):
        while b"\0" not in self.rest:
            part = os.read(self.read_end, 1 << 20)
            if not part:
                raise AssertionError("the browser ended")
            self.rest += part
        line, self.rest = self.rest.split(b"\0", 1)
        return json.loads(line)

    def note(self, message):
        what, params = message.get("method"), message.get("params", {})
        if what == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif what == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif what == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(params["args"]))
        elif what == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(json.dumps(params["entry"]))

    def call(self, method, params=None):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params or {}}
        if hasattr(self, "session"):
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self.note(answer)

    def js(self, expression):
        result = self.call("Runtime.evaluate", {"expression": expression, "returnByValue": True})
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def later(self, promise):
        """The value that a promise gives."""
        result = self.call("Runtime.evaluate", {"expression": promise, "returnByValue": True, "awaitPromise": True})
        if "exceptionDetails" in result:
            raise AssertionError(f"{promise}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression, what):
        """Asks until `expression` is true; says what it waited for if it never is."""
        end = time.monotonic() + PATIENCE_S
        while not (value := self.js(expression)):
            if time.monotonic() > end:
                text = self.js("document.body.innerText")
                raise AssertionError(f"never happened: {what}\n--- the page says\n{text}\n{self.complaints}")
            time.sleep(0.05)
        return value

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride",
                  {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent",
                  {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1, **more})

    def click(self, selector):
        self.js(f"document.querySelector({json.dumps(selector)}).click()")

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)}).innerText")

    def shot(self, directory, name, whole=False):
        if not directory:
            return
        picture = self.call("Page.captureScreenshot", {"captureBeyondViewport": whole})
        pathlib.Path(directory, f"{name}.png").write_bytes(base64.b64decode(picture["data"]))


def number(text):
    return int(text.replace(",", ""))


def box(browser, selector):
    return browser.js(f"(() => {{ const r = document.querySelector('{selector}').getBoundingClientRect();"
                      " return [r.x, r.y, r.width, r.height]; })()")


def colours(browser, selector):
    """How many different colours a canvas shows."""
    return browser.js(
        f"(() => {{ const c = document.querySelector('{selector}');"
        " const d = new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer);"
        " return new Set(d).size; })()")


IMAGE = "#plot-image"


def counts_of(about):
    return number(about.split(" counts")[0].split("· ")[-1])


def check_numbers(b, url):
    # The example loses packets: that is said, and is not green.
    b.wait("document.querySelector('#state')?.innerText === 'Running, packets lost'", "the state Running")
    assert b.js("document.querySelector('#state').className") == "pill bad"
    b.wait("/^[1-9].*[kM]\\sevents\\/s/s.test(document.querySelector('#tile-events p').innerText)", "an event rate in thousands or millions")
    b.wait("/[1-9]/.test(document.querySelector('#tile-lost p').innerText)", "lost packets")
    shown = number(b.text("#tile-total p"))
    with urllib.request.urlopen(url + "api/state") as answer:
        state = json.load(answer)
    assert 0 < shown <= state["totals"]["events"], (shown, state["totals"])
    assert b.text("#title") == "Small-angle scattering, made up"
    assert "bit/s" in b.text("#tile-bits p")
    assert b.js("document.querySelector('#tile-lost').classList.contains('bad')")
    # While counters move, one of them may be read before its partner: the difference goes with the next look.
    b.wait("document.querySelector('#tile-balance p').innerText === '0'", "a balance of 0")
    losses = b.text("#ledger tr.loss")
    assert "receive.lost.socket" in losses and "What to do: raise net.core.rmem_max" in losses, losses
    assert b.js("document.querySelector('#ledger tbody tr').className") == "loss", "losses stand first"
    b.wait("document.querySelector('#hops').innerText.includes('0 ✓')", "hops that balance")
    assert "receive" in b.text("#hops")
    assert "nexus" in b.text("#outputs") and "best effort" in b.text("#outputs")
    assert "udp://0.0.0.0:9000" in b.text("#source")
    before = b.js("document.querySelectorAll('#ledger tbody tr').length")
    b.click("#ledger .seg button:last-child")
    after = b.js("document.querySelectorAll('#ledger tbody tr').length")
    assert after == len(state["ledger"]) > before, (before, after)


def check_plots(b):
    for plot in ("image", "tof", "tof-pixel"):
        b.js(f"document.querySelector('#plot-{plot}').scrollIntoView()")
        b.wait(f"/[1-9][0-9,]* counts/.test(document.querySelector('#plot-{plot} .about').innerText)", f"counts of {plot}")
    assert colours(b, "#plot-image canvas") > 60
    assert colours(b, "#plot-tof canvas") > 5
    assert colours(b, "#plot-tof-pixel canvas") > 60
    assert b.js("document.querySelector('#plot-adc').hidden"), "no amplitudes, no amplitude plot"
    b.js("window.scrollTo(0, 0)")


def check_mouse(b):
    x, y, w, h = box(b, IMAGE + " canvas")
    b.mouse("mouseMoved", x + w / 2 - 60, y + h / 2)
    read = b.wait("/pixel/.test(document.querySelector('#plot-image .readout').innerText) && document.querySelector('#plot-image .readout').innerText", "a read-out")
    assert "counts" in read and "x " in read and "y " in read, read
    b.mouse("mousePressed", x + w / 2 - 80, y + h / 2 - 80)
    b.mouse("mouseMoved", x + w / 2 + 80, y + h / 2 + 80)
    b.mouse("mouseReleased", x + w / 2 + 80, y + h / 2 + 80)
    chosen = zoom_of(b, "image")
    assert chosen, "a zoom"
    seen = counts_of(b.text(IMAGE + " .about"))
    b.wait(f"Number(document.querySelector('{IMAGE} .about').innerText.split(' counts')[0].split('· ').pop().replaceAll(',', '')) > {seen}", "newer counts")
    assert zoom_of(b, "image") == chosen, "the zoom survives a refresh"
    x, y, w, h = box(b, "#plot-tof canvas")
    b.mouse("mouseMoved", x + w / 3, y + h / 2)
    b.wait("/Time of flight .*[0-9] ms.*counts/s.test(document.querySelector('#plot-tof .readout').innerText)", "a read-out of the spectrum")


def check_settings(b, shots):
    b.click(IMAGE + " header > button")
    b.js("document.querySelector('#plot-image details').open = true")
    b.js("(() => { const s = document.querySelector('#plot-image details select'); s.value = 'inferno'; s.dispatchEvent(new Event('change')); })()")
    b.shot(shots, "menu")
    b.click(IMAGE + " .seg button:first-child")
    b.wait(f"document.querySelector('{IMAGE} .about').innerText.startsWith('last ')", "the current view")
    b.call("Page.reload")
    b.wait(f"document.querySelector('{IMAGE} .about')?.innerText.startsWith('last ')", "the current view after a reload")
    assert b.js(f"document.querySelector('{IMAGE} header > button').ariaPressed") == "true", "logarithmic, still"
    assert "inferno" in b.js("localStorage.getItem('fullcount/1')")
    b.shot(shots, "zoomed")
    b.click(IMAGE + " .seg button:last-child")
    b.wait(f"document.querySelector('{IMAGE} .about').innerText.startsWith('since ')", "the cumulative view")


def check_controls(b, url):
    def server_events():
        with urllib.request.urlopen(url + "api/state") as answer:
            return json.load(answer)["totals"]["events"]

    before = counts_of(b.text(IMAGE + " .about"))
    b.click("#clear")
    b.wait(f"Number(document.querySelector('{IMAGE} .about').innerText.split(' counts')[0].split('· ').pop().replaceAll(',', '')) < {before}", "a cleared picture")
    b.click("#pause")
    paused = b.text("#tile-total p")
    then = server_events()
    end = time.monotonic() + PATIENCE_S
    while server_events() < then + 1_500_000 and time.monotonic() < end:
        time.sleep(0.05)
    assert b.text("#tile-total p") == paused, "a paused page stands still while counting goes on"
    b.click("#pause")
    b.wait(f"document.querySelector('#tile-total p').innerText !== '{paused}'", "numbers after the pause")
    b.js("(() => { const s = document.querySelector('#window'); s.value = '10'; s.dispatchEvent(new Event('change')); })()")
    end = time.monotonic() + PATIENCE_S
    while True:
        with urllib.request.urlopen(url + "api/state") as answer:
            if json.load(answer)["window_s"] == 10:
                break
        assert time.monotonic() < end, "the window never changed"
        time.sleep(0.05)


def fits(b, width):
    """Nothing of the tables is cut off or scrolls sideways, with numbers of a long run."""
    b.size(width, 900)
    b.wait(f"innerWidth === {width}", f"a window {width} wide")
    out = b.js("""[...document.querySelectorAll('#account .wide')].filter((e) => e.scrollWidth > e.clientWidth)
        .map((e) => e.closest('article').id + ' ' + e.scrollWidth + ' of ' + e.clientWidth).join()""")
    assert out == "", f"at {width}: {out}"
    clipped = b.js("""[...document.querySelectorAll('#account td, #account th, #account .place b, .tile p, .tile span')]
        .filter((e) => e.scrollWidth > e.clientWidth + 1 && e.offsetParent).map((e) => e.innerText).join()""")
    assert clipped == "", f"at {width}, clipped: {clipped}"
    assert b.js("document.documentElement.scrollWidth <= innerWidth"), width


def check_notices(b, shots):
    """Missing numbers, many rejections, waiting: the answers are changed on their way in."""
    shown = "(() => { const e = document.querySelector('%s'); return e && e.offsetParent && e.innerText; })()"
    change = lambda text: b.js(f"window.changed = (s) => {{ {text}; }}; 0")
    assert b.text("#tiles-rates").count("\n") > 3 and b.text("h2.group") == "Rates now"
    assert "Rates over time" in b.text("#rates h2")
    assert not b.js(shown % "#notice"), "1 packet in 8000 is not worth a notice"
    assert not b.js(shown % "#waiting") and not b.js(shown % ".missing")

    change("s.totals.missing = 1234")
    assert b.wait(shown % "#tile-lost .missing", "missing packets") == "1,234 missing so far"
    amber = b.js("getComputedStyle(document.querySelector('#tile-lost .missing')).color")
    assert amber == "rgb(138, 81, 0)", amber
    assert b.text("#losses .hint").startswith("1,234 missing so far: overtaken packets")
    b.shot(shots, "missing")
    change("s.totals.missing = 0; s.totals.lost = 0; s.anything_lost = false")
    b.wait("!document.querySelector('.missing')", "no word of missing packets")
    assert b.text("#tile-lost span") == "nothing lost"

    part = lambda n: ("const most = s.ledger.find((l) => l.name === 'decode.bad_size'); s.totals.packets = 100000;"
                      f"s.rejected = {{ packets: {n}, most: {{ ...most, value: {n} }} }}")
    change(part(3400))
    notice = b.wait(shown % "#notice", "a notice of rejections")
    assert notice.startswith("3.4 % of the packets received are rejected. All of them: packets whose length"), notice
    assert "(decode.bad_size). What to do: check the sender's firmware version" in notice, notice
    b.shot(shots, "rejected")
    change(part(1000))
    b.wait("document.querySelector('#notice').hidden", "no notice at 1 %")

    change("s.run.last_data_s_ago = null; s.rates = null")
    assert b.wait(shown % "#waiting", "waiting") == "Waiting for data: source udp://0.0.0.0:9000, buffer 64 MiB"
    b.shot(shots, "waiting")
    change("")
    b.wait("document.querySelector('#waiting').hidden", "the first packet")

    change("s.hops.forEach((h) => { h.in = h.accepted = 123456789012; h.queued = 5678901; h.difference = -1234567; });"
           "s.totals.events = 123456789; s.totals.missing = 1234567;"
           "s.sinks.forEach((k) => { k.events = 123456789012; k.dropped_events = 4567890123; })")
    b.wait("document.querySelector('#hops').innerText.includes('123,456,789,012')", "long numbers")
    for width in (1280, 1100, 1080, 800, 1920):
        fits(b, width)
        b.js("document.querySelector('#account').scrollIntoView()")
        b.shot(shots, f"balance-{width}")
    # Totals of every size stand there whole, at every width.
    for total in (99_999_999, 123_456_789, 1_234_567_890, 10_000_000_000_000):
        change(f"s.totals.events = s.totals.lost = s.balance = {total}; s.anything_lost = true")
        b.wait(f"document.querySelector('#tile-total p').innerText === '{total:,}'", f"a total of {total:,}")
        for width in (1920, 1280, 1241, 1100, 800, 561, 480, 360):
            b.size(width, 900)
            b.wait(f"innerWidth === {width}", f"a window {width} wide")
            out = b.js("""[...document.querySelectorAll('.tile p')].filter((e) => e.scrollWidth > e.clientWidth)
                .map((e) => `${e.innerText}: ${e.scrollWidth} in ${e.clientWidth}`).join()""")
            assert out == "", f"at {width}: {out}"
            least = b.js("Math.min(...[...document.querySelectorAll('.tile p')].map((e) => parseFloat(getComputedStyle(e).fontSize)))")
            assert least >= 9, f"at {width}: digits of {least} points"
    b.js("window.scrollTo(0, 0); window.changed = null; 0")
    b.size(1400, 1000)
    b.wait("innerWidth === 1400", "the wide window")


def check_trouble(b):
    """Banners and marks of a run that is not well are readable as well."""
    b.js("""window.changed = (s) => { s.totals.missing = 1234; s.totals.packets = 100000; s.run.last_data_s_ago = null;
        s.rejected = { packets: 3400, most: { ...s.ledger.find((l) => l.name === 'decode.bad_size'), value: 3400 } };
        s.sinks.forEach((k) => { k.required = true; k.queued = k.capacity; }); }; 0""")
    b.wait("!document.querySelector('#notice').hidden && !document.querySelector('#waiting').hidden", "notices")
    b.js("document.querySelector('#banner').textContent = 'Refused: a reason'; document.querySelector('#banner').hidden = false; 0")
    check_axe(b, "a run in trouble", menus=["false"])
    b.js("document.querySelector('#banner').hidden = true; window.changed = null; 0")
    b.wait("document.querySelector('#notice').hidden && document.querySelector('#waiting').hidden", "no notices")
    # The same of one that is well, and of one that has refused packets and ended: other colours.
    whole = "s.totals.lost = s.totals.missing = 0; s.anything_lost = false"
    for change, kind, what in [("s.rejected.packets = 0", "good", "a run that is well"), ("s.run.running = false", "warn", "a run that has ended")]:
        b.js(f"window.changed = (s) => {{ {whole}; {change}; }}; 0")
        b.wait(f"document.querySelector('#state').className === 'pill {kind}'", what)
        check_axe(b, what, menus=["false"])
    b.js("window.changed = null; 0")
    b.wait("document.querySelector('#state').className === 'pill bad'", "the run as it is")


def check_another_detector(b):
    """A zoom belongs to its detector: another one of the same size with plots of the same names is shown whole."""
    b.js("document.querySelector('#plot-image canvas').focus(); 0")
    key(b, "+", "+")
    assert zoom_of(b, "image"), "a zoom of the one"
    b.js("window.changed = (s) => { s.run.detector = 'another one'; s.run.started_ms += 1; }; 0")
    b.wait("document.querySelector('#detector').textContent === 'another one'", "another detector")
    b.wait("/[1-9][0-9,]* counts/.test(document.querySelector('#plot-image .about')?.innerText)", "its counts")
    b.wait("/^Drag a box/.test(document.querySelector('#plot-image .readout').innerText)", "its whole picture")
    b.js("document.querySelector('#plot-image canvas').focus(); 0")
    key(b, "-", "-")
    assert zoom_of(b, "image") is None
    b.js("window.changed = null; 0")
    b.wait("document.querySelector('#detector').textContent !== 'another one'", "the first one again")
    b.wait("/^Double-click/.test(document.querySelector('#plot-image .readout').innerText)", "its own zoom again")
    b.js("document.querySelector('#plot-image canvas').focus(); 0")
    key(b, "0")


def check_legend(b):
    """The colour bar says what cells without counts look like, where a scale has no colour for 0."""
    b.js("""window.drawn = new Set();
        const fillText = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {
          if (this.canvas.closest?.('#plot-image')) window.drawn.add(text);
          fillText.call(this, text, ...more);
        }; 0""")
    for log in (True, False):
        if b.js(f"document.querySelector('{IMAGE} header > button').ariaPressed") != str(log).lower():
            b.click(IMAGE + " header > button")
        b.js("window.drawn.clear(); 0")
        b.wait("window.drawn.has('counts')", "a picture drawn anew")
        assert b.js("window.drawn.has('no counts')") == log, f"logarithmic: {log}"


def check_states(b, shots):
    """Words for a silent, a waiting and an ended run: the answers are changed on their way in."""
    b.js("""window.asked = window.fetch; window.fetch = async (path, more) => {
        if (window.gone) throw new TypeError('no server');
        const answer = await window.asked(path, more);
        if (path !== '/api/state' || !window.changed) return answer;
        const state = await answer.json();
        window.changed(state);
        return { ok: true, json: async () => state };
    }""")
    whole = "s.totals.lost = 0; s.anything_lost = false; s.rejected.packets = 0"
    for change, pill, kind in [
            (f"{whole}", "Running", "good"),
            (f"{whole}; s.rejected.packets = 1", "Running, packets refused", "warn"),
            (f"{whole}; s.totals.lost = 1; s.rejected.packets = 1", "Running, packets lost", "bad"),
            (f"{whole}; s.anything_lost = true", "Running, events lost", "bad"),
            (f"{whole}; s.run.running = false; s.totals.lost = 1", "Ended, packets lost", "bad"),
            (f"{whole}; s.run.last_data_s_ago = 72.4", "No data for 1 min 12 s", "warn"),
            (f"{whole}; s.run.last_data_s_ago = null; s.rates = null", "Waiting for data", "warn"),
            (f"{whole}; s.run.running = false; s.balance = 5; s.hops[0].difference = 5", "Ended", "")]:
        b.js(f"window.changed = (s) => {{ {change}; }}; 0")
        b.wait(f"document.querySelector('#state').innerText === '{pill}'", pill)
        assert b.js("document.querySelector('#state').className").split()[1:] == kind.split(), (pill, kind)
        if pill == "Waiting for data":
            assert "–" in b.text("#tile-events p"), "no rate is made up"
    assert b.js("document.querySelector('#tile-balance').classList.contains('bad')")
    assert b.text("#hops .wrong") == "5"
    assert b.js("document.querySelector('#clear').disabled")
    b.shot(shots, "ended")
    b.js("window.gone = true; 0")
    b.wait("document.querySelector('#banner').innerText.startsWith('The run has ended')", "a calm word that server and run are gone")
    assert b.js("document.querySelector('#banner').classList.contains('plain')")
    assert b.text("#state") == "Ended", "an announced end is no lost connection"
    b.shot(shots, "gone")
    b.js("window.gone = false; window.changed = null; 0")
    b.wait("document.querySelector('#state').innerText === 'Running, packets lost'", "Running again")
    assert b.js("document.querySelector('#banner').hidden")


def check_source(b, shots):
    """Workers as rows, what they share once."""
    b.js("""window.changed = (s) => { s.run.source = [];
        for (let i = 0; i < 3; i++) s.run.source.push('listening on 0.0.0.0:9000', 'engine gro: recvmmsg');
        s.run.source.push('worker 1 udp://0.0.0.0:9000 worker 1 of 3 on CPU 2: 1,000,000 packets',
            'worker 2 udp://0.0.0.0:9000 worker 2 of 3 on CPU 3: 3,000,000 packets',
            'worker 3 udp://0.0.0.0:9000 worker 3 of 3 on CPU 4: 0 packets');
    }; 0""")
    b.wait("document.querySelectorAll('#source tbody tr').length === 3", "a row for each worker")
    assert b.text("#source ul").splitlines() == ["Listening on 0.0.0.0:9000 × 3", "Engine gro: recvmmsg × 3"], b.text("#source ul")
    second = b.text("#source tbody tr:nth-child(2)").split()
    assert second == ["2", "udp://0.0.0.0:9000", "on", "CPU", "3", "3,000,000", "75.0", "%"], second
    b.js("document.querySelector('#source').scrollIntoView()")
    b.shot(shots, "source")
    b.js("window.changed = (s) => { s.run.source = ['link 1 udp://10.0.0.1:9000: 5 packets', 'link 2 udp://10.0.1.1:9000: 5 packets']; }; 0")
    b.wait("document.querySelector('#source th').innerText === 'Link'", "links of a redundant pair")
    assert "%" not in b.text("#source"), "each link carries everything"
    b.js("window.changed = null; window.scrollTo(0, 0); 0")
    b.wait("document.querySelector('#source .wide').hidden", "one worker needs no table")


def check_looks(b, shots):
    b.js("window.scrollTo(0, 0)")
    b.shot(shots, "wide")
    b.shot(shots, "wide-whole", whole=True)
    b.js("document.querySelector('#account').scrollIntoView()")
    b.shot(shots, "ledger")
    b.js("window.scrollTo(0, 0)")
    b.call("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    ground = b.wait("(() => { const c = getComputedStyle(document.body).backgroundColor; return c.startsWith('rgb(14') && c; })()", "a dark ground")
    assert ground, ground
    b.shot(shots, "dark")
    b.call("Emulation.setEmulatedMedia", {"features": []})
    b.size(480, 1000)
    b.wait("innerWidth === 480", "a narrow window")
    assert b.js("document.documentElement.scrollWidth") <= 480, "nothing sticks out of a narrow window"
    b.wait("document.querySelector('#plot-image canvas').width < 480", "a narrow picture")
    b.shot(shots, "narrow")
    b.js("document.querySelector('#account').scrollIntoView()")
    b.shot(shots, "narrow-ledger")
    b.size(1400, 1000)


def read_options(description, *more):
    """Options of a script that looks at a page; `more` are a script's own, each a name and what argparse takes. Ends the script where no browser is."""
    options = argparse.ArgumentParser(description=description.splitlines()[0])
    options.add_argument("--browser", help="Chromium, by default the one in PATH")
    for name, how in more:
        options.add_argument(name, **how)
    options.add_argument("server", nargs="+", help="program that serves the page, and its arguments")
    options.add_argument("--shots", help="directory for screenshots")
    options = options.parse_args()
    options.browser = options.browser or find_browser()
    if not options.browser:
        print("skipped: no Chromium in PATH (Debian: apt-get install chromium)")
        sys.exit(1 if os.environ.get("CI") == "true" else 0)
    if options.shots:
        os.makedirs(options.shots, exist_ok=True)
    return options


def started(command):
    """The program and its page's address."""
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    # A test runner may have begun the line with words of its own.
    url = next(("http://" + line.split("http://")[1].strip() for line in server.stdout if "http://" in line), None)
    assert url, "the server ended without naming its address"
    return server, url


@contextlib.contextmanager
def looking(program, server, url):
    """A browser at the page. At its end nothing was complained of and nobody but the server was asked; both are ended in any case."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = None
        try:
            browser = Browser(program, profile)
            browser.size(1400, 1000)
            browser.call("Page.navigate", {"url": url})
            yield browser
            assert browser.complaints == [], browser.complaints
            foreign = [u for u in browser.requests if not u.startswith((url, "blob:" + url))]
            assert foreign == [], f"requests to others: {foreign}"
        finally:
            for process in [server] + ([browser.process] if browser else []):
                process.terminate()
                process.wait()


def main():
    options = read_options(__doc__)
    server, url = started(options.server)
    with looking(options.browser, server, url) as browser:
        check_numbers(browser, url)
        check_plots(browser)
        check_mouse(browser)
        check_settings(browser, options.shots)
        check_controls(browser, url)
        check_states(browser, options.shots)
        check_notices(browser, options.shots)
        check_source(browser, options.shots)
        check_another_detector(browser)
        for plot in ("image", "tof-pixel", "tof"):
            check_keys(browser, plot, plot == "tof")
        check_menus(browser, "image")
        check_axe(browser, "a flat panel")
        check_trouble(browser)
        check_legend(browser)
        check_looks(browser, options.shots)
        assert browser.complaints == [], browser.complaints
        server.terminate()
        server.wait()
        browser.wait("/^Connection lost since [0-9]{2}:/.test(document.querySelector('#banner').innerText)", "the word that the server is gone")
        browser.shot(options.shots, "lost")
        # The browser complains of requests that nobody answers any more.
        browser.complaints.clear()
    print(f"browser: the page is right ({len(browser.requests)} requests, all to its own server)")


if __name__ == "__main__":
    main()
