#!/usr/bin/env python3
"""Makes messages for the file writer with ess-streaming-data-types, the package that others use.

    write_messages.py FOLDER

One file a message, NN_TOPIC.bin, for the structure of crates/writer/tests/write_made. check_write.py knows the values.
"""
import sys
from pathlib import Path

import numpy as np

for _old, _new in (("unicode_", np.str_), ("string_", np.bytes_)):  # the f142 decoder predates numpy 2
    if not hasattr(np, _old):
        setattr(np, _old, _new)
from streaming_data_types import serialise_al00, serialise_da00, serialise_ev44, serialise_f144, serialise_hs01
from streaming_data_types.alarm_al00 import Severity
from streaming_data_types.area_detector_ad00 import serialise_ad00
from streaming_data_types.array_1d_se00 import serialise_se00
from streaming_data_types.dataarray_da00 import Variable
from streaming_data_types.epics_connection_ep01 import ConnectionInfo, serialise_ep01
from streaming_data_types.timestamps_tdct import serialise_tdct

S = 10**9


def events():
    """300 events in three pulses of one message each: pixels 1 to 128 over and over."""
    for k in range(3):
        i = np.arange(100 * k, 100 * (k + 1))
        yield serialise_ev44(
            "bank", k + 1, np.array([(k + 1) * S]), np.array([0], dtype=np.int32),
            (i * 10).astype(np.int32), (i % 128 + 1).astype(np.int32),
        )


def logs():
    for k in range(5):
        yield serialise_f144("temperature", 280.0 + k, (k + 1) * S)
        yield serialise_f144("field", np.array([1.0, 2.0, 3.0 + k]), (k + 1) * S)
    yield serialise_al00("temperature", 2 * S, Severity.MAJOR, "too warm")
    yield serialise_ep01(2 * S, ConnectionInfo.DISCONNECTED, "temperature", "forwarder")
    yield serialise_se00("fast", -1, 2 * S, 1000, 0, np.arange(10, dtype=np.int16))
    yield serialise_tdct("chopper", np.array([S, 2 * S]), 1)
    for k in range(2):
        yield serialise_ad00("camera", k, (k + 1) * S, np.arange(6, dtype=np.uint16).reshape(2, 3) + k, [])
        yield serialise_da00("spectrum", (k + 1) * S, [
            Variable("signal", np.array([1, 2, 3], dtype=np.int32) + k, unit="counts", axes=["x"]),
            Variable("width", np.array([0.5, 1.0, 1.5]), unit="counts", axes=["x"]),
        ])
        yield serialise_hs01({
            "source": "histogram", "timestamp": (k + 1) * S, "current_shape": [2],
            "dim_metadata": [{"length": 2, "unit": "ms", "label": "tof", "bin_boundaries": np.array([0.0, 1.0, 2.5])}],
            "last_metadata_timestamp": 0, "data": np.array([10, 20], dtype=np.int64) + k, "errors": np.array([1.0, 2.0]),
        })


def main():
    folder = Path(sys.argv[1])
    n = 0
    for topic, messages in (("events", events()), ("logs", logs())):
        for message in messages:
            (folder / f"{n:02}_{topic}.bin").write_bytes(bytes(message))
            n += 1
    print(n)


main()
