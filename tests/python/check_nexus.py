"""Loads a file of Fullcount with h5py, scippnexus and scippneutron, and checks every event.

The events are those of crates/testing/src/made_events.rs: event i has pixel i * 7919 mod pixels + 1, belongs to
pulse i / 700 and lies (i mod 700) * 13 ns after it; pulse k is at 10**9 + k * 71,428,571 ns. With --deep,
pixel i + 1 lies 20 mm * (i mod 5) + 1 mm * (i / 16) behind the panel's origin.
Rules: docs/formats/nexus.md sections 5 and 6. Ends with status 1 and a sentence at the first fault.
"""

import argparse
import datetime
import sys
import warnings

import h5py
import numpy as np
import scipp as sc
import scippneutron  # noqa: F401  (registers the graphs that compute positions)
import scippnexus as snx

PANEL = "bank"


def expect(ok, what):
    if not ok:
        sys.exit(f"fault: {what}")


def expected(n, pixels):
    i = np.arange(n, dtype=np.int64)
    return i * 7919 % pixels + 1, i % 700 * 13, 10**9 + i // 700 * 71_428_571


def with_h5py(path, n):
    with h5py.File(path, "r") as f:
        events = f[f"entry/{PANEL}_events"]
        same = f[f"entry/instrument/{PANEL}/{PANEL}_events"]
        expect(events == same, "the group in the entry is the detector's own")
        number = f[f"entry/instrument/{PANEL}/detector_number"][()]
        ident, offset, zero = expected(n, number.size)
        expect(np.array_equal(events["event_id"][()], ident), "event_id")
        expect(np.array_equal(events["event_time_offset"][()], offset), "event_time_offset")
        index, pulses = events["event_index"][()], events["event_time_zero"][()]
        expect(pulses.dtype == np.uint64 and index.dtype == np.int64, "types of the pulse rows")
        expect(len(index) == len(pulses) >= 2, "two pulse rows or more")
        expect(int(events["total_counts"][()]) == n, "total_counts")
        counts = np.diff(np.append(index, n))
        expect(np.array_equal(np.repeat(pulses, counts), zero), "pulse of each event")
        for name in ("start_time", "end_time"):
            text = f[f"entry/{name}"].asstr()[()]
            expect(datetime.datetime.fromisoformat(text).tzinfo is not None, f"{name} {text}")
        expect(len(f["entry/fullcount/version"].asstr()[()]) > 0, "version")
        expect("columns" in f["entry/fullcount/geometry"].asstr()[()], "geometry text")
        source = f["entry/instrument/source/depends_on"].asstr()[()]
        return number, source != "."


def places(number, deep):
    """Where each pixel must be, in the order of detector_number."""
    i = np.arange(number.size)
    x, y = 0.005 * (i % 16 - 7.5), 0.005 * (i // 16 - 3.5)
    z = 10.0 + (0.02 * (i % 5) + 0.001 * (i // 16) if deep else np.zeros(number.size))
    return np.stack([x, y, z], axis=-1)[number - 1]


def with_scippnexus(path, n, number, placed_source, deep):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = snx.load(path, root="entry")
    detector = loaded["instrument"][PANEL]
    expect(isinstance(detector, sc.DataGroup), "detector loads as a group")
    events = detector[f"{PANEL}_events"]
    expect(isinstance(events, sc.DataArray) and events.bins is not None, "events are binned")
    expect(events.ndim == number.ndim, "binned over the dimensions of detector_number")
    found = events.coords["detector_number"].values
    expect(np.array_equal(found, number), "detector_number is a coordinate")
    ident, offset, zero = expected(n, number.size)
    per_pixel = np.bincount(ident, minlength=number.size + 1)[number]
    expect(np.array_equal(events.bins.size().values, per_pixel), "events of each pixel")
    if n:
        flat = events.bins.constituents["data"]
        expect(flat.coords["event_time_zero"].dtype == sc.DType.datetime64, "pulses are dates")
        expect(flat.coords["event_time_offset"].unit == "ns", "offsets are in ns")
        since = flat.coords["event_time_zero"] - sc.epoch(unit="ns")
        found = np.sort(since.values + flat.coords["event_time_offset"].values)
        expect(np.array_equal(found, np.sort(zero + offset)), "absolute times")

    placed = snx.compute_positions(loaded)
    position = placed["instrument"][PANEL][f"{PANEL}_events"].coords["position"]
    expect(position.unit == "m", "positions are in m")
    expect(np.allclose(position.values, places(number, deep)), "pixel positions")
    if placed_source:
        source = placed["instrument"]["source"]["position"]
        expect(np.allclose(source.value, [0, 0, -25]), "source position")
    sample = placed["sample"]["position"]
    expect(np.allclose(sample.value, [0, 0, 0]), "sample position")


def with_scippneutron(path, number, placed_source, deep):
    """Scattering angle and path length of each pixel: what a reduction begins with."""
    from scippneutron.conversion.graph import beamline

    if not placed_source:
        return
    placed = snx.compute_positions(snx.load(path, root="entry"))
    data = placed["instrument"][PANEL][f"{PANEL}_events"].copy(deep=False)
    data.coords["source_position"] = placed["instrument"]["source"]["position"]
    data.coords["sample_position"] = placed["sample"]["position"]
    angle = data.transform_coords(["two_theta", "Ltotal"], graph=beamline.beamline(scatter=True))
    expect(np.all(angle.coords["two_theta"].values < 0.01), "small angles")
    want = 25 + np.linalg.norm(places(number, deep), axis=-1)
    expect(np.allclose(angle.coords["Ltotal"].values, want, atol=1e-9), "25 m + the way to the pixel")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("file")
    arguments.add_argument("--events", type=int, required=True)
    arguments.add_argument("--deep", action="store_true", help="the detector has depth")
    a = arguments.parse_args()
    number, placed_source = with_h5py(a.file, a.events)
    with h5py.File(a.file, "r") as f:
        has = "z_pixel_offset" in f[f"entry/instrument/{PANEL}"]
        expect(has == a.deep, "z_pixel_offset only in a detector with depth")
    with_scippnexus(a.file, a.events, number, placed_source, a.deep)
    with_scippneutron(a.file, number, placed_source, a.deep)
    print("good")


if __name__ == "__main__":
    main()
