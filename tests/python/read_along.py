"""Reads a file again and again while Fullcount writes it (SWMR), and checks what it sees each time.

Prints "open" once the file is open and "look" after each look; ends with status 1 and a sentence at the first fault. The events
are those of check_nexus.py. A reader takes event_time_zero and event_index first, so that the events
they point to are there when it comes to them (docs/formats/nexus.md section 4).
"""

import argparse
import sys

import h5py
import numpy as np


def fresh(dataset):
    dataset.id.refresh()
    return dataset[()]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("file")
    arguments.add_argument("--pixels", type=int, required=True)
    arguments.add_argument("--looks", type=int, required=True)
    a = arguments.parse_args()
    with h5py.File(a.file, "r", swmr=True) as f:
        print("open", flush=True)
        events = f["entry/bank_events"]
        committed = f["entry/fullcount/committed"]
        looks, last, grown = 0, 0, 0
        while looks < a.looks:
            n, rows = (int(v) for v in fresh(committed))
            zero, index = fresh(events["event_time_zero"]), fresh(events["event_index"])
            offset, ident = fresh(events["event_time_offset"]), fresh(events["event_id"])
            if n < last:
                sys.exit(f"fault: {n} events committed after {last}")
            if min(len(ident), len(offset)) < n or min(len(zero), len(index)) < rows:
                sys.exit(f"fault: {n} events, {rows} rows committed, fewer in the file")
            shorter = min(len(zero), len(index))
            if len(index) < len(zero):
                sys.exit("fault: event_time_zero runs ahead of event_index")
            index, zero = index[:shorter], zero[:shorter]
            if np.any(np.diff(index) < 0) or index[-1] > min(len(ident), len(offset)):
                sys.exit("fault: event_index is not sorted or runs ahead of the events")
            i = np.arange(n, dtype=np.int64)
            row = np.searchsorted(index, i, side="right") - 1
            if not np.array_equal(ident[:n], i * 7919 % a.pixels + 1):
                sys.exit("fault: event_id")
            if not np.array_equal(offset[:n], i % 700 * 13):
                sys.exit("fault: event_time_offset")
            if not np.array_equal(zero[row].astype(np.int64), 10**9 + i // 700 * 71_428_571):
                sys.exit("fault: event_time_zero")
            grown += n > last
            looks += 1
            print("look", flush=True)
            last = n
        if grown < 3:
            sys.exit(f"fault: the file grew only {grown} times in {looks} looks")


if __name__ == "__main__":
    main()
