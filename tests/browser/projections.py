#!/usr/bin/env python3
"""Looks at the live page of detectors with depth, with cassettes and with strips: projections, tiles, single events, read-outs, layout.

The browser is steered as in page.py. The program is the example `page` of fullcount-out with the detector
`deep` (12 x 40 x 20 voxels), `blades` (50 cassettes of 32 wires and 64 strips), `stack` (the same, one above
the other) or `strips` (128 x 128 strips with tracks). `cargo test -p fullcount-out --test browser` runs it for each.

Usage: tests/browser/projections.py --detector deep|blades|stack|strips [--browser PATH] [--shots DIRECTORY] -- PROGRAM [ARGUMENT ...]
"""

import struct
import urllib.error
import urllib.request

from access import check_axe, check_keys
from page import box, colours, looking, number, read_options, started


def pixels(url, plot):
    with urllib.request.urlopen(f"{url}api/pixels?plot={plot}") as answer:
        body = answer.read()
    return struct.unpack(f"<{len(body) // 4}I", body)


def counted(b, plots):
    for plot in plots:
        b.js(f"document.querySelector('#plot-{plot}').scrollIntoView()")
        b.wait(f"/[1-9][0-9,]* counts/.test(document.querySelector('#plot-{plot} .about')?.innerText)", f"counts of {plot}")
        assert colours(b, f"#plot-{plot} canvas") > (5 if plot in ("tof", "z", "cassettes", "size-x", "size-y") else 40), plot
    b.js("window.scrollTo(0, 0)")


def at(b, plot, u, v, part):
    """The read-out at the share (u, v) of a plot's box; the box is what is left of the canvas beside axes and bar."""
    b.js(f"document.querySelector('#plot-{plot} .stage').scrollIntoView({{ block: 'center' }})")
    x, y, w, h = box(b, f"#plot-{plot} canvas")
    left, right, top, below = part
    b.mouse("mouseMoved", x + left + u * (w - left - right), y + top + v * (h - top - below))
    words = f"document.querySelector('#plot-{plot} .readout').innerText"
    # Pixel numbers and sums of pixels come with an answer of their own.
    return b.wait(f"/counts.* pixels|pixel [0-9]/.test({words}) && {words}", f"a read-out of {plot}")


def texts(b, plot):
    """Words drawn into a plot from now on: waits for a whole new drawing."""
    b.js(f"""window.drawn = new Set(); window.drawnIn = '#plot-{plot}';
        window.fillText ??= CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {{
          if (this.canvas.closest?.(window.drawnIn)) window.drawn.add(text);
          window.fillText.call(this, text, ...more);
        }}; 0""")
    b.js(f"document.querySelector('#plot-{plot}').scrollIntoView()")
    b.wait("window.drawn.has('counts') || window.drawn.has('Counts')", f"{plot} drawn anew")
    return set(b.js("[...window.drawn]"))


def check_box(b, plot, words):
    found = b.js(f"""(() => {{ const label = [...document.querySelectorAll('#plot-{plot} .check')].find((e) => e.textContent === '{words}');
        label?.querySelector('input').click(); return Boolean(label); }})()""")
    assert found, f"{plot} has no choice {words}"


def saved_rows(b, plot):
    """Lines of the CSV that a card saves, without its comments."""
    b.js(f"""window.Blob = new Proxy(window.blob ??= window.Blob, {{ construct(Made, [parts, kind]) {{
        window.saved = parts.join(''); return new Made(parts, kind); }} }});
        [...document.querySelectorAll('#plot-{plot} .menu button')].find((e) => e.textContent === 'Save CSV').click(); 0""")
    return [line for line in b.js("window.saved").splitlines() if line and not line.startswith("#")]


def where(b, name):
    x, y, w, h = box(b, name)
    return round(x), round(y + b.js("scrollY")), round(w), round(h)


def check_deep(b, url):
    counted(b, ["image", "xy", "xz", "zy", "z", "tof"])
    assert pixels(url, "xy") == (20,) * 480 and pixels(url, "z") == (480,) * 20
    try:
        pixels(url, "tof")
        raise AssertionError("a spectrum has no cells of pixels")
    except urllib.error.HTTPError as e:
        assert e.code == 404, e.code
    filled = (52, 66, 8, 38)
    # The cell in the lower left corner is (0, 0), whatever the kind of projection.
    said = at(b, "xy", 0.5 / 12, 39.5 / 40, filled)
    assert said.startswith("x 0 y 0 counts ") and said.endswith(" of 20 pixels"), said
    said = at(b, "xz", 11.5 / 12, 0.5 / 20, filled)
    assert said.startswith("x 11 z (depth) 19 counts ") and said.endswith(" of 40 pixels"), said
    said = at(b, "z", 3.5 / 20, 0.5, (62, 14, 10, 38))
    assert said.startswith("z (depth) 3 counts ") and said.endswith(" of 480 pixels"), said
    said = at(b, "image", 38.5 / 120, 74.5 / 80, filled)
    assert said.startswith(f"layer 13 x 2 y 5 pixel {1 + 2 + 12 * (5 + 40 * 13):,} counts "), said
    # The cell in the lower left corner, whichever way the picture is turned.
    for turn, place in [("Flip left and right", "x 11 y 0"), ("Flip up and down", "x 11 y 39"),
                        ("Flip left and right", "x 0 y 39"), ("Flip up and down", "x 0 y 0")]:
        check_box(b, "xy", turn)
        said = at(b, "xy", 0.5 / 12, 39.5 / 40, filled)
        assert said.startswith(place + " "), (turn, said)
    check_box(b, "xy", "Swap the axes")
    # Now x runs downwards and y to the left.
    said = at(b, "xy", 39.5 / 40, 0.5 / 12, filled)
    assert said.startswith("x 0 y 0 "), said
    check_box(b, "xy", "Swap the axes")
    rows = saved_rows(b, "xz")
    assert rows[0] == "x,z (depth),pixels,counts" and len(rows) == 1 + 12 * 20, rows[:2]
    assert rows[1].startswith("0,19,40,") and rows[-1].startswith("11,0,40,"), (rows[1], rows[-1])
    rows = saved_rows(b, "z")
    assert rows[0] == "z (depth),pixels,counts" and [r.split(",")[:2] for r in rows[1:]] == [[str(z), "480"] for z in range(20)], rows
    rows = saved_rows(b, "image")
    assert rows[0] == "x,y,layer,layer x,layer y,pixel,counts" and len(rows) == 1 + 9600, rows[0]
    assert f"38,74,13,2,5,{1 + 2 + 12 * (5 + 40 * 13)}" in {r.rsplit(",", 1)[0] for r in rows}
    words = texts(b, "zy")
    assert {"z (depth)", "y", "counts", "0", "10"} <= words, words
    assert not any("." in w for w in words), f"cells have whole numbers: {words}"
    # Numbers of layers stand in the corners of their tiles.
    assert {str(k) for k in range(20)} <= texts(b, "image")
    # Bins of cells cannot be changed, so nobody is asked for them.
    for plot, bins in [("xy", 0), ("z", 0), ("tof", 1)]:
        found = b.js(f"[...document.querySelectorAll('#plot-{plot} button')].filter((e) => /these bins/.test(e.innerText || e.textContent)).length")
        assert found == bins, (plot, found)
    # An absorbed beam: the front layer counts more than one further back.
    z = [number(at(b, "z", (k + 0.5) / 20, 0.5, (62, 14, 10, 38)).split("counts ")[1].split(" ")[0]) for k in (0, 10)]
    assert z[0] > 2 * z[1], z
    (ix, iy, iw, ih), (tx, ty, tw, th) = where(b, "#plot-image"), where(b, "#plot-tof")
    assert tx > ix + iw and ty == iy, "the spectrum stands beside the picture"
    assert where(b, "#rates")[0] == tx and where(b, "#rates")[1] > ty, "and the rates below it"
    sums = [where(b, f"#plot-{p}") for p in ("xy", "xz", "zy", "z")]
    assert all(s[1] >= iy + ih for s in sums) and len({s[1] for s in sums}) == 2, "four sums: two and two"
    assert len({s[2] for s in sums}) == 1, sums


def check_blades(b, url):
    counted(b, ["image", "cassettes", "wires", "tof"])
    assert pixels(url, "cassettes") == (2048,) * 50 and pixels(url, "wires") == (64,) * 1600
    long = (52, 66, 24, 38)
    said = at(b, "image", (3 * 32 + 7.5) / 1600, 20.5 / 64, long)
    assert said.startswith(f"cassette 3 wire 7 strip 20 pixel {20 * 1600 + 3 * 32 + 8:,} counts "), said
    words = texts(b, "image")
    assert {"cassette", "0", "48", "strip", "Column"} <= words, words
    # The cassette that is switched off is dark, its neighbours are not.
    dark, lit = [at(b, "cassettes", (k + 0.5) / 50, 0.5, (62, 14, 10, 38)) for k in (12, 13)]
    assert dark.startswith("Cassette 12 counts 0 of 2,048 pixels") and "counts 0 " not in lit, (dark, lit)
    (ix, iy, iw, ih), (tx, ty, tw, th) = where(b, "#plot-image"), where(b, "#plot-tof")
    assert iw > 1300 and ty >= iy + ih and tw < 700, "a long picture has the whole width"


def check_stack(b, url):
    counted(b, ["image", "tof"])
    long = (52, 66, 24, 38)
    # 64 columns and 1600 rows: the rows run to the right, so that cassettes stand side by side.
    for turn in (None, "Swap the axes", "Swap the axes"):
        if turn:
            check_box(b, "image", turn)
        lying = turn is None or b.js("JSON.parse(localStorage.getItem('fullcount/1'))[`plot.${document.querySelector('#detector').textContent}.image`].swap")
        along, across = (3 * 32 + 7.5) / 1600, 20.5 / 64
        said = at(b, "image", along, across, long) if lying else at(b, "image", across, along, (52, 66, 8, 38))
        # A row is narrower than a point of the screen: the read-out may be of its neighbour.
        words = said.split()
        assert words[:3] == ["cassette", "3", "strip"] and words[3] == "20" and words[4] == "wire" and int(words[5]) in (6, 7, 8), said
        pixel = 1 + 20 + 64 * (3 * 32 + int(words[5]))
        assert words[6:8] == ["pixel", f"{pixel:,}"], (said, pixel)
    words = texts(b, "image")
    assert {"cassette", "0", "48", "strip", "Row"} <= words, words
    assert where(b, "#plot-image")[2] > 1300, "the whole width"


def check_strips(b, url):
    counted(b, ["image", "size-x", "size-y", "tof"])
    about = b.js("document.querySelector('#plot-size-x .about').innerText")
    assert "gated out" in about, about
    b.js("document.querySelector('#plot-tracks .stage').scrollIntoView({ block: 'center' })")
    b.wait("/[1-9][0-9,]* events sampled/.test(document.querySelector('#plot-tracks .about')?.innerText)", "single events")
    # Nothing is added up: no current and cumulative view, no scale of counts.
    assert b.js("[...document.querySelectorAll('#plot-tracks header .seg, #plot-tracks header > button')].every((e) => e.offsetParent === null)")
    rows = saved_rows(b, "tracks")
    assert rows[0] == "event,plane,strip,time_ns,adc" and len(rows) == 1 + 8 + 3, rows
    assert rows[1] == "0,x strip,100,350,100" and rows[-1] == "0,y strip,22,320,400", rows
    # Where the page draws a hit: times to 6 % beyond the latest, a strip above and below.
    x, y, w, h = box(b, "#plot-tracks canvas")
    width, longest = (w - 58 - 12 - 58) / 2, 350 * 1.06
    across = lambda ns: (ns + 0.03 * longest) / (1.06 * longest) * width
    said = "document.querySelector('#plot-tracks .readout').innerText"
    for plane, ns, strip, low, high, adc in [("x", 350, 100, 99, 108, 100), ("x", 0, 107, 99, 108, 170), ("y", 310, 21, 18, 24, 400)]:
        left = 58 + (width + 58) * (plane == "y")
        b.mouse("mouseMoved", x + left + across(ns), y + 20 + (h - 20 - 38) * (1 - (strip - low) / (high - low)))
        wanted = f"{plane} strip {strip} at {ns} ns ADC {adc}"
        b.wait(f"{said} === '{wanted}'", wanted)
    b.js("""(() => { const s = document.querySelector('#plot-tracks .menu select'); s.value = '4'; s.dispatchEvent(new Event('change')); })()""")
    assert len(saved_rows(b, "tracks")) == 1 + 4 * 11


def looks(b, shots, name):
    b.mouse("mouseMoved", 1, 1)
    b.js("window.scrollTo(0, 0)")
    b.shot(shots, f"{name}-wide", whole=True)
    b.call("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    b.wait("getComputedStyle(document.body).backgroundColor.startsWith('rgb(14')", "a dark ground")
    b.shot(shots, f"{name}-dark", whole=True)
    b.call("Emulation.setEmulatedMedia", {"features": []})
    for width in (2000, 1100, 480):
        b.size(width, 1000)
        b.wait(f"innerWidth === {width}", f"a window {width} wide")
        assert b.js("document.documentElement.scrollWidth <= innerWidth"), f"sticks out at {width}"
        b.wait(f"[...document.querySelectorAll('.card canvas')].every((e) => e.clientWidth > 200 && e.clientWidth < {width})", "cards that fit")
        out = b.js("[...document.querySelectorAll('#plots .card > header')].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.innerText).join()")
        assert out == "", f"at {width}: {out}"
        b.shot(shots, f"{name}-{width}", whole=True)
    b.size(1400, 1000)


def main():
    pages = {"deep": check_deep, "blades": check_blades, "stack": check_stack, "strips": check_strips}
    options = read_options(__doc__, ("--detector", {"choices": list(pages), "required": True}))
    server, url = started(options.server)
    with looking(options.browser, server, url) as browser:
        browser.wait("document.querySelector('#state')?.innerText.startsWith('Running')", "the state Running")
        pages[options.detector](browser, url)
        check_keys(browser, "image", False)
        check_axe(browser, options.detector)
        looks(browser, options.shots, options.detector)
    print(f"browser: the page of {options.detector} is right")


if __name__ == "__main__":
    main()
