#!/usr/bin/env python3
"""Decodes our FlatBuffers messages with ess-streaming-data-types, the package that others use.

    check_flat.py GOLDEN OURS

GOLDEN is vectors/flatbuffers. OURS holds, under the same names, what Fullcount writes of each golden message, and
events.json with what is in its own event messages. A message of ours must decode to what the golden one decodes to;
ar51 and mo01, which the package does not decode, are read with the generic reader of FlatBuffers. Prints how many
messages were compared; any difference ends in exit code 1.
"""
import dataclasses
import json
import sys
from pathlib import Path

import numpy as np

for _old, _new in (("unicode_", np.str_), ("string_", np.bytes_)):  # the f142 decoder predates numpy 2
    if not hasattr(np, _old):
        setattr(np, _old, _new)
import flatbuffers
import flatbuffers.number_types as types
import streaming_data_types as sdt
from flatbuffers.encode import Get
from flatbuffers.table import Table


def plain(value):
    """Lists, dicts and numbers, with the type of every column."""
    if isinstance(value, np.ndarray):
        return [str(value.dtype), list(value.shape), value.tolist()]
    if isinstance(value, np.generic):
        return value.item()
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        return {key: plain(item) for key, item in value._asdict().items()}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


class Slots:
    """A table read by slot numbers alone."""

    def __init__(self, buffer, position):
        self.table = Table(buffer, position)

    @staticmethod
    def root(buffer):
        return Slots(bytearray(buffer), Get(types.UOffsetTFlags.packer_type, buffer, 0))

    def offset(self, slot):
        return self.table.Offset(4 + 2 * slot)

    def scalar(self, slot, flags):
        at = self.offset(slot)
        return self.table.Get(flags, at + self.table.Pos) if at else 0

    def text(self, slot):
        at = self.offset(slot)
        return self.table.String(at + self.table.Pos).decode() if at else None

    def column(self, slot, flags):
        at = self.offset(slot)
        return self.table.GetVectorAsNumpy(flags, at).tolist() if at else None

    def child(self, slot):
        return Slots(self.table.Bytes, self.table.Indirect(self.offset(slot) + self.table.Pos))

    def children(self, slot):
        at = self.offset(slot)
        start, length = self.table.Vector(at), self.table.VectorLen(at)
        return [Slots(self.table.Bytes, self.table.Indirect(start + 4 * i)) for i in range(length)]


def ar51(buffer):
    root = Slots.root(buffer)
    return {
        "source_name": root.text(0),
        "message_id": root.scalar(1, types.Int64Flags),
        "raw_data_hex": bytes(root.column(2, types.Uint8Flags)).hex(),
    }


def mo01(buffer):
    root = Slots.root(buffer)
    kind, data = root.scalar(1, types.Uint8Flags), root.child(2)
    if kind == 1:
        names = ("xstrips", "ystrips", "xspectrum", "yspectrum", "cluster_spectrum")
        fields = {name: data.column(i, types.Uint32Flags) for i, name in enumerate(names)}
        fields = {"type": "GEMHist", **fields, "bin_width": data.scalar(5, types.Uint32Flags)}
    elif kind == 2:
        def points(slot):
            names = ("time", "strip", "adc")
            return [{n: p.scalar(i, types.Uint16Flags) for i, n in enumerate(names)} for p in data.children(slot)]

        fields = {
            "type": "GEMTrack",
            "time_offset": data.scalar(0, types.Uint64Flags),
            "xtrack": points(1),
            "ytrack": points(2),
            "xpos": data.scalar(3, types.Float64Flags),
            "ypos": data.scalar(4, types.Float64Flags),
        }
    else:
        assert kind == 3, kind
        fields = {
            "type": "MONHit",
            "plane": data.column(0, types.Uint16Flags),
            "time": data.column(1, types.Uint32Flags),
            "channel": data.column(2, types.Uint16Flags),
            "adc": data.column(3, types.Uint16Flags),
        }
    return {"source_name": root.text(0), "data": fields}


def same(name, ours, wanted):
    if ours != wanted:
        sys.exit(f"{name}: ours says\n{ours}\nwanted\n{wanted}")


def main():
    golden, ours = Path(sys.argv[1]), Path(sys.argv[2])
    compared = 0
    for name, entry in json.loads((golden / "expected.json").read_text()).items():
        if entry["accept"] is not True:
            continue
        buffer, schema = (ours / name).read_bytes(), entry["schema"]
        assert buffer[4:8] == schema.encode(), name
        if schema in ("ar51", "mo01"):
            same(name, {"ar51": ar51, "mo01": mo01}[schema](buffer), entry["fields"])
        else:
            decode = sdt.DESERIALISERS[schema]
            same(name, plain(decode(buffer)), plain(decode((golden / name).read_bytes())))
        compared += 1
    for name, wanted in json.loads((ours / "events.json").read_text()).items():
        buffer = (ours / name).read_bytes()
        decoded = sdt.DESERIALISERS[buffer[4:8].decode()](buffer)
        # Absent and empty are the same to numpy's reader.
        read = {k: getattr(decoded, k) for k in wanted}
        read = {k: v.tolist() if isinstance(v, np.ndarray) else [] if v == 0 and isinstance(wanted[k], list) else v
                for k, v in read.items()}
        same(name, read, wanted)
        compared += 1
    print(f"{compared} messages")


if __name__ == "__main__":
    main()
