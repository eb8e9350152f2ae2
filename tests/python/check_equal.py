#!/usr/bin/env python3
"""Compares two files of one input: one of the nexus sink, one that came over Kafka and the file writer.

    check_equal.py DIRECT WRITTEN BANK

With h5py: the pulses that have events, and of each its events (time after the pulse, pixel) in their order. Rows of a
pulse may be several, and pulses without events are in the file of the sink only. With scippnexus: both load without a
warning as binned events with positions, and hold the same absolute times of each pixel, in their order but for pulses that
come again later in the file. Ends with status 1 and a sentence at the first fault.
"""
import sys
import warnings

import h5py
import numpy as np
import scipp as sc
import scippneutron  # noqa: F401  (registers the graphs that compute positions)
import scippnexus as snx


def expect(ok, what):
    if not ok:
        sys.exit(f"fault: {what}")


def with_h5py(path, bank):
    with h5py.File(path, "r") as file:
        events = file[f"entry/instrument/{bank}/{bank}_events"]
        expect(events == file[f"entry/{bank}_events"], f"{path}: the group in the entry is the detector's own")
        ident, offset = events["event_id"][()], events["event_time_offset"][()]
        zero, index = events["event_time_zero"][()], events["event_index"][()]
        types = [events[name].dtype for name in ("event_id", "event_time_offset", "event_time_zero", "event_index")]
        expect(types == [np.int32, np.int32, np.uint64, np.int64], f"{path}: {types}")
        says = {name: str(value) for name, value in events["event_time_zero"].attrs.items()}
        expect(says == {"units": "ns", "offset": "1970-01-01T00:00:00Z"}, f"{path}: {says}")
        expect(events["event_time_offset"].attrs["units"] == "ns", f"{path}: units of the offsets")
        expect(int(events["total_counts"][()]) == len(ident), f"{path}: total_counts")
    pulse = np.repeat(zero, np.diff(np.append(index, len(ident))))
    # Stable: events of a pulse stay in their order.
    order = np.argsort(pulse, kind="stable")
    return pulse[order], offset[order], ident[order]


def with_scippnexus(path, bank):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        entry = snx.compute_positions(snx.load(path, root="entry"))
    events = entry["instrument"][bank][f"{bank}_events"]
    expect(isinstance(events, sc.DataArray) and events.bins is not None, f"{path}: events are binned")
    source = entry["instrument"]["source"]["position"]
    expect(np.allclose(source.value, [0, 0, -25]), f"{path}: position of the source")
    flat = events.bins.constituents
    data, begin, end = flat["data"], flat["begin"].values.ravel(), flat["end"].values.ravel()
    expect(data.coords["event_time_zero"].dtype == sc.DType.datetime64, f"{path}: pulses are dates")
    since = (data.coords["event_time_zero"] - sc.epoch(unit="ns")).values
    time = since + data.coords["event_time_offset"].to(unit="ns", copy=False).values
    times = [np.sort(time[first:last]) for first, last in zip(begin, end)]
    number = events.coords["detector_number"].values
    return number, events.coords["position"].values, times


def main():
    direct, written, bank = sys.argv[1:]
    ours, theirs = with_h5py(written, bank), with_h5py(direct, bank)
    for what, a, b in zip(("pulses", "times after the pulse", "pixels"), ours, theirs):
        expect(np.array_equal(a, b), f"{what} differ")
    (ours, place, a), (theirs, same, b) = with_scippnexus(written, bank), with_scippnexus(direct, bank)
    expect(np.array_equal(ours, theirs), "detector_number differs")
    # Numbers that went through JSON may differ in their last digit.
    expect(np.allclose(place, same, rtol=0, atol=1e-12), "positions differ")
    expect(sum(map(len, a)) > 0, "no events")
    expect(all(np.array_equal(x, y) for x, y in zip(a, b)), "times of a pixel differ")
    print(f"{sum(map(len, a))} events are the same")


main()
