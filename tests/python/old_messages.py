#!/usr/bin/env python3
"""Makes messages of schemas that only old topics hold, with ess-streaming-data-types.

    old_messages.py FOLDER

One file a message, NN_SCHEMA.bin, and expected.json: its name with the fields that our reader must find. hs00 is not in
there: it has golden messages. crates/writer/tests/scenarios/write_python.rs knows the values too. Prints how many messages there are.
"""
import json
import sys
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

for _old, _new in (("unicode_", np.str_), ("string_", np.bytes_)):  # some decoders predate numpy 2
    if not hasattr(np, _old):
        setattr(np, _old, _new)
from streaming_data_types import (
    serialise_ADAr,
    serialise_ep00,
    serialise_ev43,
    serialise_hs00,
    serialise_ns10,
    serialise_senv,
)
from streaming_data_types.area_detector_ADAr import Attribute
from streaming_data_types.fbschemas.epics_connection_info_ep00.EventType import EventType
from streaming_data_types.fbschemas.sample_environment_senv.Location import Location

S = 10**9


def at(seconds):
    return datetime.fromtimestamp(seconds, tz=timezone.utc)


def messages():
    """(schema, message, fields of our reader)"""
    for k in range(2):
        zero, index, tof, pixel = [(2 * k + 1) * S, (2 * k + 2) * S], [0, 2], [5, 6, 7], [1, 128, 64]
        fields = {"source_name": "bank", "message_id": k, "pulse_time": zero, "pulse_index": index,
                  "time_of_flight": tof, "detector_id": pixel}
        yield "ev43", serialise_ev43("bank", k, zero, index, tof, pixel), fields
    for k, text in enumerate(["21.5", "22", "'on'", "1e3"]):
        fields = {"key": "nicos/t/value", "time": k + 1.25, "ttl": 0.0, "expired": False, "value": text}
        yield "ns10", serialise_ns10("nicos/t/value", text, k + 1.25), fields
    for k, (kind, name) in enumerate([(EventType.CONNECTED, "CONNECTED"), (EventType.DISCONNECTED, "DISCONNECTED")]):
        fields = {"timestamp": (k + 1) * S, "type": name, "source_name": "pv", "service_id": "forwarder"}
        yield "ep00", serialise_ep00((k + 1) * S, kind, "pv", "forwarder"), fields
    kinds = [("UInt16Array", np.uint16), ("Int64Array", np.int64), ("Int8Array", np.int8)]
    for k, (kind, dtype) in enumerate(kinds):
        times = [(k + 1) * S + i for i in range(3)] if k == 1 else None
        fields = {"name": "adc", "channel": 2, "packet_timestamp": (k + 1) * S, "time_delta": 1000.0,
                  "timestamp_location": "Middle", "values": {"type": kind, "value": [1, 2, 3]},
                  "timestamps": times, "message_counter": k}
        values = np.array([1, 2, 3], dtype=dtype)
        yield "senv", serialise_senv("adc", 2, at(k + 1), 1000, k, values, Location.Middle, times), fields
    for k in range(2):
        image = np.arange(6, dtype=np.uint16).reshape(2, 3) + k
        attribute = Attribute("gain", "of the chip", "PV:GAIN", "high")
        fields = {"source_name": "camera", "id": k, "timestamp": (k + 1) * S, "dimensions": [2, 3],
                  "data_type": "uint16", "data": list(image.tobytes()),
                  "attributes": [{"name": "gain", "description": "of the chip", "source": "PV:GAIN",
                                  "data_type": "c_string", "data": list(b"high")}]}
        yield "ADAr", serialise_ADAr("camera", k, at(k + 1), image, [attribute]), fields
    for k in range(2):
        yield "hs00", serialise_hs00({
            "source": "histogram", "timestamp": (k + 1) * S, "current_shape": [2],
            "dim_metadata": [{"length": 2, "unit": "ms", "label": "tof", "bin_boundaries": np.array([0.0, 1.0, 2.5])}],
            "last_metadata_timestamp": 0, "data": np.array([10, 20], dtype=np.uint64) + np.uint64(k),
            "errors": np.array([1.0, 2.0]),
        }), None


def main():
    folder = Path(sys.argv[1])
    expected = {}
    for n, (schema, message, fields) in enumerate(messages()):
        name = f"{n:02}_{schema}.bin"
        (folder / name).write_bytes(bytes(message))
        if fields is not None:
            expected[name] = fields
    (folder / "expected.json").write_text(json.dumps(expected))
    print(n + 1)


main()
