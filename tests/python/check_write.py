#!/usr/bin/env python3
"""Loads a file of the file writer with scippnexus and checks what write_messages.py sent.

    check_write.py FILE

Rules: docs/formats/nexus.md sections 3, 5, 6 and 7. Ends with status 1 and a sentence at the first fault.
"""
import sys
import warnings

import h5py
import numpy as np
import scipp as sc
import scippneutron  # noqa: F401  (registers the graphs that compute positions)
import scippnexus as snx

S = 10**9


def expect(ok, what):
    if not ok:
        sys.exit(f"fault: {what}")


def date(ns):
    return np.datetime64(ns, "ns")


def main():
    path = sys.argv[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        entry = snx.load(path, root="entry")
    detector = entry["instrument"]["bank"]
    expect(isinstance(detector, sc.DataGroup), "the detector loads as a group")
    events = detector["bank_events"]
    expect(isinstance(events, sc.DataArray) and events.bins is not None, "events are binned")
    number = events.coords["detector_number"].values
    expect(number.shape == (8, 16) and number[7, 15] == 128, "over the dimensions of detector_number")
    per_pixel = np.bincount(np.arange(300) % 128 + 1, minlength=129)[number]
    expect(np.array_equal(events.bins.size().values, per_pixel), "events of each pixel")
    flat = events.bins.constituents["data"]
    expect(flat.coords["event_time_zero"].dtype == sc.DType.datetime64, "pulse times are dates")
    pulses, counts = np.unique(flat.coords["event_time_zero"].values, return_counts=True)
    expect(list(pulses) == [date(S), date(2 * S), date(3 * S)] and set(counts) == {100}, "events of each pulse")
    expect(str(flat.coords["event_time_offset"].unit) == "ns", "unit of the offsets")
    placed = snx.compute_positions(entry)["instrument"]["bank"]["bank_events"].coords["position"]
    expect(np.allclose(placed.values[7, 15], [0.15, 0.07, 2.5]), f"position of pixel 128: {placed.values[7, 15]}")

    log = entry["sample"]["temperature"]
    log = log["value"] if isinstance(log, sc.DataGroup) else log
    expect(np.allclose(log.values, 280.0 + np.arange(5)) and str(log.unit) == "K", f"temperature: {log}")
    expect(list(log.coords["time"].values) == [date((k + 1) * S) for k in range(5)], "dates of the temperature")
    # Alarms and connection states stand beside each log, also where nothing lists them.
    expect(set(entry["sample"]["field"]) >= {"value", "alarm", "connection_status"}, "what is beside the field")
    field = entry["sample"]["field"]["value"]
    expect(field.shape == (5, 3) and field.values[4, 2] == 7.0 and str(field.unit) == "T", f"field: {field}")
    spectrum = entry["spectrum"]
    expect(spectrum.dims == ("time", "x") and spectrum.shape == (2, 3), f"spectrum: {spectrum.sizes}")
    expect(list(spectrum.values[1]) == [2, 3, 4] and spectrum.coords["x"].shape == (4,), "spectrum and its edges")
    histogram = entry["histogram"]
    expect(histogram.dims == ("time", "tof") and list(histogram.values[1]) == [11, 21], f"histogram: {histogram.sizes}")
    expect(str(histogram.coords["tof"].unit) == "ms", "unit of the edges")
    camera = entry["camera"]
    expect(camera.shape == (2, 2, 3) and camera.values[1, 1, 2] == 6, f"camera: {camera}")
    fast = entry["fast"]["value"]
    expect(list(fast.values) == list(range(10)) and fast.coords["time"].values[9] == date(2 * S + 9000), f"fast: {fast}")
    with h5py.File(path) as file:
        group = file["entry/sample/temperature"]
        expect(group["alarm_message"].asstr()[0] == "too warm" and group["alarm_severity"][0] == 2, "the alarm")
        expect(group["connection_status"][0] == 3, "the connection")
        marks = file["entry/instrument/chopper/top_dead_center/time"][()]
        expect(list(marks) == [S, 2 * S], "the marks of the chopper")
        expect(file["entry/bank_events"] == file["entry/instrument/bank/bank_events"], "the link for Mantid")
    print("fine")


main()
