"""Who cannot use a mouse or see colours: axe-core's checks of the whole page, keys of the plots, Escape.

axe-core's file is the one that FULLCOUNT_AXE names, or the one that `cargo xtask test` fetched into target/axe. Without it
`check_axe` prints `skipped: ...`, and fails where CI=true. It runs inside the page by the debugging pipe, which the
page's own policy does not concern. Source: docs/testing.md.
"""

import json
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILT = "target/axe/node_modules/axe-core/axe.min.js"
# All rules but those that are still experiments.
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


def find_axe():
    named = os.environ.get("FULLCOUNT_AXE")
    paths = [pathlib.Path(p) for p in ([named] if named else []) + [ROOT / BUILT]]
    return next((p for p in paths if p.is_file()), None)


def check_axe(b, what, menus=("false", "true")):
    """Nothing to object to, in the light and the dark scheme, wide and narrow, with all menus closed and open."""
    path = find_axe()
    if not path:
        print(f"skipped: no axe-core at FULLCOUNT_AXE or {BUILT} (cargo xtask test browser fetches it)")
        assert os.environ.get("CI") != "true", "CI needs axe-core"
        return
    b.js(path.read_text() + "; 0")
    for scheme in ("light", "dark"):
        b.call("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        for width in (1400, 480):
            b.size(width, 1000)
            b.wait(f"innerWidth === {width}", f"a window {width} wide")
            for shown in menus:
                b.js(f"document.querySelectorAll('details.menu').forEach((d) => {{ d.open = {shown}; }}); 0")
                found = b.later(f"axe.run(document, {json.dumps(RULES)}).then((r) => r.violations.map((v) =>"
                                " `${v.id} (${v.impact}): ${v.help}: ` + v.nodes.map((n) => n.target.join(' ') + ' '"
                                " + n.any.concat(n.all, n.none).map((c) => c.message).join('; ')).join(' | ')).join('\\n'))")
                assert found == "", f"{what}, {scheme}, {width} wide, menus open: {shown}:\n{found}"
    b.js("document.querySelectorAll('details.menu').forEach((d) => { d.open = false; }); 0")
    b.call("Emulation.setEmulatedMedia", {"features": []})
    b.size(1400, 1000)
    b.wait("innerWidth === 1400", "the wide window")
    print(f"axe: nothing to object to in the page of {what}")


def key(b, name, text="", shift=False):
    more = {"key": name, "modifiers": 8 if shift else 0}
    if text:
        more["text"] = text
    b.call("Input.dispatchKeyEvent", {"type": "keyDown", **more})
    b.call("Input.dispatchKeyEvent", {"type": "keyUp", "key": name})


def zoom_of(b, plot):
    """The zoom that this browser keeps for a plot of the detector that is shown."""
    return b.js(f"""JSON.parse(localStorage.getItem('fullcount/1') ?? '{{}}')
        [`plot.${{document.querySelector('#detector').textContent}}.{plot}`]?.zoom ?? null""")


def check_keys(b, plot, flat):
    """Keys zoom, move and read a plot that has the focus; `flat`: a spectrum, with one direction."""
    canvas = f"document.querySelector('#plot-{plot} canvas')"
    b.js(f"{canvas}.scrollIntoView({{ block: 'center' }}); {canvas}.focus(); 0")
    assert b.js(f"document.activeElement === {canvas}"), "a plot takes the focus"
    key(b, "0")
    assert zoom_of(b, plot) is None
    key(b, "+", "+")
    near = zoom_of(b, plot)
    assert near and len(near) == (2 if flat else 4), near
    key(b, "ArrowRight")
    right = zoom_of(b, plot)
    length = lambda z: z[-1 if flat else 2] - z[0]
    assert right[0] > near[0] and abs(length(right) - length(near)) <= 1, (near, right)
    if not flat:
        key(b, "ArrowUp")
        up = zoom_of(b, plot)
        assert up[1] < right[1] and up[0] == right[0], (right, up)
    key(b, "-", "-")
    assert zoom_of(b, plot) is None or length(zoom_of(b, plot)) > length(near)
    key(b, "Home")
    assert zoom_of(b, plot) is None
    read = f"document.querySelector('#plot-{plot} .readout').innerText"
    key(b, "ArrowRight", shift=True)
    first = b.wait(f"/counts/.test({read}) && {read}", "a read-out by key")
    key(b, "ArrowRight", shift=True)
    second = b.js(read)
    assert second.split(" counts")[0] != first.split(" counts")[0], (first, second)
    # A page scrolls with arrows, but not while a plot has them.
    b.js("document.activeElement.blur(); 0")


def check_menus(b, plot):
    """Escape closes a menu and gives its button the focus back; so does leaving it."""
    menu = f"document.querySelector('#plot-{plot} details')"
    b.js(f"{menu}.scrollIntoView(); {menu}.open = true; {menu}.querySelector('select').focus(); 0")
    key(b, "Escape")
    assert not b.js(f"{menu}.open"), "Escape closes a menu"
    assert b.js(f"document.activeElement === {menu}.querySelector('summary')")
    b.js(f"{menu}.open = true; 0")
    b.js("document.querySelector('#pause').focus(); 0")
    assert not b.js(f"{menu}.open"), "leaving a menu closes it"
    b.js("document.activeElement.blur(); window.scrollTo(0, 0); 0")
