"""Reads NeXus files that follow one another with h5py, and tells of each how many events it has and from when to when.

Prints one object of JSON: `files` with `name`, `events` (rows of event_id), `first` and `last` (event_time_zero of the
first and the last pulse that has events, ns; null without events), in the order of the arguments, and `faults`:
sentences about what does not fit within a file. Ends with status 0 in any case that it could read.
"""

import json
import os
import sys

import h5py
import numpy as np


def events_of(file):
    """The group of events of the only detector."""
    found = []

    def look(_, node):
        if isinstance(node, h5py.Group) and "event_id" in node:
            found.append(node)

    file["entry/instrument"].visititems(look)
    return found


def read(path, faults):
    name = os.path.basename(path)
    expect = lambda ok, what: ok or faults.append(f"{name}: {what}")
    with h5py.File(path, "r") as file:
        groups = events_of(file)
        expect(len(groups) == 1, f"{len(groups)} groups of events, not one")
        if not groups:
            return {"name": name, "events": 0, "first": None, "last": None}
        group = groups[0]
        n = len(group["event_id"][()])
        expect(len(group["event_time_offset"][()]) == n, "as many times as events")
        expect(int(group["total_counts"][()]) == n, "total_counts is the number of events")
        index, zero = group["event_index"][()], group["event_time_zero"][()]
        expect(len(index) == len(zero), "as many indices as pulses")
        expect(n == 0 or len(index) > 0 and index[0] == 0, "the first event has a pulse")
        counts = np.diff(np.append(index, n))
        expect(bool(np.all(counts >= 0)), "indices rise, up to the number of events")
        with_events = zero[counts > 0] if len(counts) == len(zero) else zero
        if len(with_events) == 0:
            return {"name": name, "events": n, "first": None, "last": None}
        return {"name": name, "events": n, "first": int(with_events.min()), "last": int(with_events.max())}


def main(paths):
    faults = []
    files = [read(path, faults) for path in paths]
    print(json.dumps({"files": files, "faults": faults}))


if __name__ == "__main__":
    main(sys.argv[1:])
