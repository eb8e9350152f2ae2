#!/usr/bin/env python3
"""Sends a thousand random item groups with the package spead2, and compares what comes back.

    spead_echo.py SEED

The other end is crates/fullcount/tests/spead_echo.rs: it decodes each heap, compares it with what is said of it here, and
sends its own values with its own descriptors in the same flavour, packet size and transport. One JSON object on each
line of standard output: "stream" (transport, flavour, packet size, port of this end; the answer on standard input is
the port of the other end), "heap" (what is in the heap that is sent next), "end" (the stop heap is next), "report"
(what was compared) or "error". The next heap is sent when the echo of the one before has come, so that nothing is lost
over UDP: a heap has less room than the smallest receive buffer that Linux gives.
"""
import itertools
import json
import logging
import math
import random
import select
import socket
import string
import sys
import traceback
from collections import Counter

import numpy as np
import spead2
import spead2.recv
import spead2.send

GROUPS = 1000
PATIENCE = 30
FLAVOURS = (8, 16, 24, 32, 40, 48, 56)
TRANSPORTS = ("udp", "tcp")
# Packet sizes, and bytes of a heap. Of 212,992 B of receive buffer a datagram takes 768 B at least.
SIZES = {56: 1500, 64: 2500, 200: 15_000, 1472: 60_000, 8972: 60_000, 30_000: 80_000, 65_507: 120_000}
# Addresses of these flavours say how long a heap can be.
LONGEST = {8: 240, 16: 60_000}
PLAIN = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "S", "U", "V")
TIMES = ("M8", "m8")
OTHERS = ("record", "padded", "format", "fields", "packed", "mixed", "wide", "text")
KINDS = PLAIN + TIMES + OTHERS
# Whole bytes, which the package reads with a type of numpy.
WHOLE = [(code, bits) for code in "ui" for bits in (8, 16, 32, 64)] + [("f", 32), ("f", 64), ("b", 8), ("c", 8)]
LETTERS = string.ascii_letters + string.digits + " .,:;'\"\\(){}[]%_-"
FIELD_NAMES = ("re", "im", "it's", 'say "x"', "back\\slash", "two words", "tab\there", "two\nlines", "\r\x01\x7f", "x" * 40, "1st", "both ' and \"")


def of_subarray(dtype):
    """The type of a field's elements and the field's own dimensions."""
    return dtype.subdtype or (dtype, ())


def fill(rng, dtype, count):
    """So many random elements: any bits where any are good, so NaNs, infinities and NaT are among them."""
    if dtype.names:
        out = np.zeros(count, dtype)
        for name in dtype.names:
            base, inner = of_subarray(dtype[name])
            out[name] = fill(rng, base, count * math.prod(inner)).reshape((count, *inner))
        return out
    if dtype.kind == "b":
        return np.frombuffer(rng.randbytes(count), "u1") % 2 == 1
    if dtype.kind == "S":
        texts = [rng.choices(LETTERS.encode(), k=dtype.itemsize) for _ in range(count)]
        return np.array([bytes(text[: rng.randint(1, dtype.itemsize)]) for text in texts], dtype)
    if dtype.kind == "U":
        length = dtype.itemsize // 4
        return np.array(["".join(rng.choices("aZ 9é€漢😀", k=rng.randint(0, length))) for _ in range(count)], dtype)
    return np.frombuffer(rng.randbytes(count * dtype.itemsize), dtype).copy()


def plain(value, dtype):
    """Integers, bit patterns, hexadecimal bytes or texts, flat in C order; of a structure [name, list] for each field."""
    if dtype.names:
        return [[name, plain(value[name], of_subarray(dtype[name])[0])] for name in dtype.names]
    flat = np.asarray(value, dtype).ravel()
    order, size = dtype.str[0], dtype.itemsize
    if dtype.kind == "b":
        return flat.view("u1").tolist()
    if dtype.kind == "f":
        return flat.view(f"{order}u{size}").tolist()
    if dtype.kind == "c":
        return flat.view(f"{order}u{size // 2}").tolist()
    if dtype.kind in "Mm":
        return flat.view(f"{order}i8").tolist()
    if dtype.kind in "SV":
        raw = flat.tobytes()
        return [raw[at : at + size].hex() for at in range(0, len(raw), size)]
    return flat.tolist()


def equal(one, other, dtype):
    """Equal as numpy has it, a NaN equal to a NaN."""
    if dtype.names:
        return all(equal(one[name], other[name], of_subarray(dtype[name])[0]) for name in dtype.names)
    one, other = np.asarray(one), np.asarray(other)
    if dtype.kind == "V":
        return one.shape == other.shape and one.tobytes() == other.tobytes()
    return np.array_equal(one, other, equal_nan=dtype.kind in "fcMm")


def record(rng, depth=2):
    """A random structure."""
    fields = []
    for name in rng.sample(FIELD_NAMES, rng.randint(1, 4)):
        if depth > 1 and rng.random() < 0.3:
            of = record(rng, depth - 1)
        else:
            of = plain_type(rng, rng.choice(PLAIN))
        inner = tuple(rng.randint(1, 3) for _ in range(rng.choice((0, 0, 0, 1, 2))))
        fields.append((name, of, inner) if inner else (name, of))
    return np.dtype(fields)


def padded(rng):
    """A structure with bytes between its fields, as a C compiler lays it out."""
    kinds = [rng.choice(("i1", "b1", "S3")), rng.choice(("f8", "u4", "c16")), "u1"]
    return np.dtype([(name, plain_type(rng, kind)) for name, kind in zip(("a", "b", "c"), kinds)], align=True)


def plain_type(rng, kind):
    """A type of this kind in a random byte order."""
    order = rng.choice("<>")
    if kind in ("S", "U", "V"):
        return np.dtype(f"{order}{kind}{rng.randint(1, 6)}")
    if kind in TIMES:
        return np.dtype(f"{order}{kind}{rng.choice(('[ns]', '[us]', '[25s]', '[D]'))}")
    return np.dtype(order + kind)


def type_of_format(fmt):
    """The type of numpy that the package reads a format with; objects where a field is not whole bytes."""
    names = {("b", 8): "?", ("c", 8): "S1"}
    words = [names.get(f, f">{f[0]}{f[1] // 8}" if f in WHOLE else "O") for f in fmt]
    return np.dtype(",".join(words))


def packed_field(rng):
    """A field that is not whole bytes, or of bytes that no processor has."""
    while True:
        field = (rng.choice("uib"), rng.choice((1, 2, 3, 4, 7, 9, 10, 12, 17, 24, 31, 33, 40, 48, 56, 63)))
        if field not in WHOLE:
            return field


class Kind:
    """What the values of an item are: a type of numpy or a format, and a shape."""

    def __init__(self, rng, kind, shape):
        self.kind, self.shape, self.order, self.format = kind, shape, "C", None
        if kind in PLAIN + TIMES:
            self.dtype = plain_type(rng, kind)
        elif kind == "record":
            self.dtype = record(rng)
        elif kind == "padded":
            self.dtype = padded(rng)
        else:
            self.format = {
                "format": lambda: [rng.choice(WHOLE)],
                "fields": lambda: rng.choices(WHOLE, k=rng.randint(2, 4)),
                "packed": lambda: [packed_field(rng)],
                "mixed": lambda: [packed_field(rng), *rng.choices(WHOLE, k=rng.randint(1, 3)), packed_field(rng)],
                "wide": lambda: [(rng.choice("ui"), rng.randint(65, 80))],
                "text": lambda: [("c", 8)],
            }[kind]()
            self.dtype = type_of_format(self.format)
        if self.format is None:
            self.order = rng.choice("CF")
        elif kind == "text":
            self.shape = (rng.choice((None, rng.randint(1, 20))),)
        elif shape and rng.random() < 0.5:
            at = rng.randrange(len(shape))
            self.shape = (*shape[:at], None, *shape[at + 1 :])
        self.bits = sum(bits for _, bits in self.format or ()) or 8 * self.dtype.itemsize

    def is_text(self):
        """The package gives one dimension of characters as a string."""
        return self.format == [("c", 8)] and len(self.shape) == 1

    def traits(self):
        """What is counted beside the kind."""
        if self.format is None and len(self.shape) > 1:
            yield "fortran" if self.order == "F" else "c"
        yield "scalar" if not self.shape else f"{len(self.shape)} dimensions"
        if self.kind == "record" and any(of_subarray(self.dtype[name])[0].names for name in self.dtype.names):
            yield "nested"
        if self.format is None and self.dtype.str[0] != "|":
            yield "big-endian" if self.dtype.str[0] == ">" else "little-endian"
        if None in self.shape:
            yield "variable"

    def choose(self, rng, least):
        """A shape of a value: a variable dimension has `least` elements or more, and is not longer by the bits of the padding."""
        if None not in self.shape:
            return self.shape
        fixed = math.prod(size for size in self.shape if size is not None)
        for size in range(rng.randint(least, 6), 1000):
            bits = size * fixed * self.bits
            if fixed == 0 or -(-bits // 8) * 8 // self.bits // fixed == size:
                return tuple((0 if fixed == 0 else size) if n is None else n for n in self.shape)
        raise AssertionError("eight elements are whole bytes")

    def value(self, rng, least=0):
        """A random value."""
        shape = self.choose(rng, least)
        count = math.prod(shape)
        if self.dtype.hasobject:
            made = [tuple(self.field(rng, field) for field in self.format) for _ in range(count)]
            flat = np.empty(count, self.dtype)
            for n, fields in enumerate(made):
                flat[n] = fields if len(fields) > 1 else fields[0]
        else:
            flat = fill(rng, self.dtype, count)
        if self.is_text():
            return b"".join(flat.tolist()).decode()
        return flat.reshape(shape)[()]

    def field(self, rng, field):
        """A value of a field that numpy has no type for, or stands beside one."""
        code, bits = field
        if code == "b":
            return rng.random() < 0.5
        if code == "c":
            return rng.choice(string.ascii_letters).encode()
        if code == "f":
            return rng.choice((0.0, -1.5, math.inf, 2.0**-100))
        # The package cannot send negative scalars of 24, 40, 48 and 56 bits: number 18 in docs/formats/spead.md.
        signed = code == "i" and not (self.format == [field] and not self.shape and bits % 8 == 0 and bits < 64)
        return rng.getrandbits(bits) - (1 << bits - 1) if signed else rng.getrandbits(bits - (code == "i"))

    def plain(self, value):
        """A value as [`plain`] has it."""
        if self.format is None:
            return plain(value, self.dtype)
        if self.is_text():
            value = np.array([letter.encode() for letter in value], "S1")
        value = np.asarray(value, self.dtype)
        if len(self.format) == 1:
            return self.column(self.format[0], value.ravel())
        return [[f"f{n}", self.column(field, value[f"f{n}"].ravel())] for n, field in enumerate(self.format)]

    @staticmethod
    def column(field, flat):
        """Values of one field of a format."""
        if field[1] > 64:
            return [(int(v) % (1 << field[1])).to_bytes(-(-field[1] // 8), "big").hex() for v in flat]
        return [int(v) for v in flat] if flat.dtype.hasobject else plain(flat, flat.dtype)


class Sent:
    """An item that was put into a group."""

    def __init__(self, of, item):
        self.of, self.bytes = of, 0
        self.take(item)

    def take(self, item):
        self.item = item
        if self.of.kind in TIMES:
            # The package reads times, and cannot send them as they are: numpy gives nobody a buffer of them.
            item.to_buffer = lambda: spead2.Item.to_buffer(item).view(f"{self.of.dtype.str[0]}i8")

    def put(self, value):
        self.item.value = value
        buffer = self.item.to_buffer()
        self.bytes = buffer.nbytes if isinstance(buffer, np.ndarray) else len(buffer)

    def is_immediate(self, flavour):
        return self.item.allow_immediate() and self.bytes <= flavour.heap_address_bits // 8

    def addressed(self, flavour):
        """Bytes of the value in the heap's payload."""
        return 0 if self.is_immediate(flavour) else self.bytes

    def descriptor(self, flavour):
        """Bytes of the descriptor."""
        raw, width = self.item.to_raw(flavour), flavour.heap_address_bits // 8
        text = len(raw.name) + len(raw.description) + len(raw.numpy_header)
        pointers = 10 if raw.numpy_header else 9
        return 8 + 8 * pointers + text + (9 - width) * len(raw.format) + (1 + width) * len(raw.shape)

    def shape(self):
        value = self.item.value
        return [len(value)] if self.of.is_text() else list(np.shape(value))

    def said(self):
        """What the other end compares. An empty value that is not an immediate does not arrive: nobody can see it."""
        comes = self.bytes > 0 or self.item.allow_immediate()
        return {
            "id": self.item.id,
            "name": self.item.name,
            "description": self.item.description,
            "dimensions": list(self.item.shape),
            "format": self.of.format,
            "fortran": self.item.order == "F",
            "shape": self.shape(),
            "value": self.of.plain(self.item.value) if comes else None,
        }

    def compare(self, back, where):
        """What came back is what was sent."""
        where, item, of = f"{where}, {self.item.name!r} ({self.of.kind}, {self.of.dtype}, {self.of.format})", self.item, self.of
        # The package gives bytes of padding in a structure a name.
        dtype = None if item.dtype is None else np.dtype(np.lib.format.dtype_to_descr(item.dtype))
        for what, mine, other in [
            ("id", item.id, back.id),
            ("description", item.description, back.description),
            ("shape", item.shape, tuple(back.shape)),
            ("dtype", dtype, back.dtype),
            ("order", item.order, back.order),
            ("format", item.format, back.format),
        ]:
            assert mine == other, f"{where}: {what} {other!r} in place of {mine!r}"
        if self.bytes == 0:
            assert back.value is None, f"{where}: {back.value!r} in place of nothing"
            return
        assert back.value is not None, f"{where}: no value"
        mine, other = item.value, back.value
        if item.dtype is not None and isinstance(other, np.ndarray):
            assert other.dtype == dtype, f"{where}: dtype {other.dtype}"
        assert of.is_text() == (type(other) is str), f"{where}: {type(other)}"
        assert np.shape(mine) == np.shape(other), f"{where}: shape {np.shape(other)} in place of {np.shape(mine)}"
        same = mine == other if of.is_text() else equal(mine, other, of.dtype)
        assert same and of.plain(mine) == of.plain(other), f"{where}: {other!r} in place of {mine!r}"


def shape(rng, room):
    """A shape with at most so many elements."""
    sizes = [rng.choice((0, 1, 2, 3, 4, 5)) if rng.random() < 0.3 else rng.randint(1, 5) for _ in range(rng.choice((0, 0, 1, 1, 2, 3)))]
    return tuple(sizes) if math.prod(sizes) <= room else (1,)


def room_of(bits, packet):
    return min(SIZES[packet], LONGEST.get(bits, 1 << 20))


class Stream:
    """A stream there and one back."""

    def __init__(self, rng, turns, kinds, counts, transport, bits, packet):
        self.rng, self.turns, self.kinds, self.counts = rng, turns, kinds, counts
        self.flavour = spead2.Flavour(4, 64, bits)
        self.transport, self.packet = transport, packet
        self.name = f"{transport}, SPEAD-64-{bits}, {packet} B"
        self.rx = spead2.recv.Stream(
            spead2.ThreadPool(), spead2.recv.StreamConfig(allow_out_of_order=True), spead2.recv.RingStreamConfig(heaps=8)
        )
        udp = transport == "udp"
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM)
        sock.bind(("127.0.0.1", 0))
        if udp:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            self.rx.add_udp_reader(sock, 65_536)
        else:
            sock.listen()
            self.rx.add_tcp_reader(sock, 1 << 22)
        say("stream", name=self.name, transport=transport, bits=bits, packet=packet, port=sock.getsockname()[1])
        ends = [("127.0.0.1", int(sys.stdin.readline()))]
        config = spead2.send.StreamConfig(max_packet_size=packet, rate=50e6 if udp else 0, burst_size=4096)
        sender = spead2.send.UdpStream if udp else spead2.send.TcpStream
        self.tx = sender(spead2.ThreadPool(), ends, config, buffer_size=0)

    def take(self, where):
        """The next heap that comes back; None: the stream has ended."""
        while select.select([self.rx.fd], [], [], PATIENCE)[0]:
            try:
                return self.rx.get_nowait()
            except spead2.Empty:
                continue
            except spead2.Stopped:
                return None
        raise AssertionError(f"{where}: nothing came back within {PATIENCE} s, {self.rx.stats}")

    def large(self):
        """A kind that fills several packets, if a heap of the flavour can be that long."""
        made = Kind(self.rng, self.rng.choice(("u8", "i8", "f8", "c16")), ())
        room = room_of(self.flavour.heap_address_bits, self.packet)
        rows = self.rng.randint(room * 3 // 5, room * 3 // 4) // made.dtype.itemsize // 2
        made.shape = (max(rows, 1), 2)
        return made

    def group(self, large):
        """A random item group, and its items: one of the next kind in turn, which is tried until it fits, and others."""
        rng, bits, group = self.rng, self.flavour.heap_address_bits, spead2.send.ItemGroup(flavour=self.flavour)
        narrow = bits == 8
        room, items, ids = room_of(bits, self.packet), [], set()
        most_id = min((1 << 63 - bits) - 1, (1 << bits) - 1)
        turn, wanted = next(self.turns), rng.randint(1, 6) + large
        for attempt in range(500):
            is_large = large and attempt == 0
            of = self.large() if is_large else Kind(rng, turn or next(self.kinds), shape(rng, 200))
            item_id = min(most_id, rng.randint(7, 1 << rng.randint(4, 46)))
            if item_id in ids:
                continue
            name = f"i{attempt}_" + "".join(rng.choices(LETTERS, k=0 if narrow else rng.randint(0, 12)))
            description = "".join(rng.choices(LETTERS, k=0 if narrow else rng.randint(0, 30)))
            item = spead2.Item(item_id, name, description, of.shape, of.dtype if of.format is None else None, of.order, of.format)
            sent = Sent(of, item)
            sent.put(of.value(rng))
            cost = sent.descriptor(self.flavour) + sent.bytes
            if cost <= room:
                room -= cost
                ids.add(item_id)
                sent.take(group.add_item(item_id, name, description, of.shape, item.dtype, of.order, of.format, value=item.value))
                items.append(sent)
                turn = turn if is_large else None
            if len(items) == wanted:
                break
        return group, items

    def heap(self, group, items):
        """The next heap of a group.

        Descriptors are in it where the package's padding would overwrite small values: number 16 in docs/formats/spead.md.
        """
        payload = sum(sent.addressed(self.flavour) for sent in items)
        pointers = (self.packet // 8 * 8 - 48) // 8
        spoilt = 0 < payload < 8 * (len(items) // pointers) + 1
        return group.get_heap(descriptors="all" if spoilt else "stale")

    def exchange(self, number, large):
        """A group there and back, then new values of some of its items."""
        group, items = self.group(large)
        known, changed = spead2.ItemGroup(), items
        for turn in ("all of it", "new values"):
            where = f"group {number} ({self.name}), {turn}"
            if turn == "new values":
                changed = [sent for sent in items if sent.bytes > 0 and self.rng.random() < 0.6]
                for sent in changed:
                    self.renew(sent)
                if not changed:
                    break
            heap = self.heap(group, changed)
            say("heap", where=where, first=changed is items, items=[sent.said() for sent in changed])
            self.tx.send_heap(heap)
            back = self.take(where)
            assert back is not None, f"{where}: the stream back has ended"
            assert back.flavour == self.flavour, f"{where}: {back.flavour}"
            try:
                known.update(back, new_order="|")
            except Exception as why:
                raise AssertionError(f"{where}: the package cannot read what came back") from why
            for sent in items:
                assert sent.item.name in known, f"{where}: no item {sent.item.name!r}"
                sent.compare(known[sent.item.name], where)
            self.count(back, changed, items)

    def renew(self, sent):
        """Another value; one whose size is its own is not longer, since the heap has room for no more."""
        before, value = sent.bytes, sent.item.value
        sent.put(sent.of.value(self.rng, least=1))
        if sent.bytes > before:
            sent.put(value)

    def count(self, back, changed, items):
        """What was compared."""
        immediate = sum(item.is_immediate for item in back.get_items() if item.id > 6)
        self.counts["traits"].update({"immediate there": sum(s.is_immediate(self.flavour) and s.bytes > 0 for s in changed)})
        self.counts["traits"].update({"immediate back": immediate})
        self.counts["heaps"].update([self.transport])
        if changed is not items:
            return
        self.counts["kinds"].update(sent.of.kind for sent in items)
        self.counts["pairs"].update(f"{sent.of.kind} {self.flavour.heap_address_bits}" for sent in items)
        for sent in items:
            self.counts["traits"].update(sent.of.traits())
            self.counts["traits"].update(["empty"] if sent.bytes == 0 else [])
        self.counts["groups"].update([self.transport])
        self.counts["flavours"].update([f"{self.transport} {self.flavour.heap_address_bits}"])
        self.counts["packets"].update([f"{self.transport} {self.packet}"])

    def end(self):
        say("end", where=f"end ({self.name})")
        self.tx.send_heap(spead2.send.HeapGenerator(spead2.ItemGroup(), flavour=self.flavour).get_end())
        assert self.take(f"end ({self.name})") is None, f"{self.name}: more than was sent"
        self.rx.stop()


def say(what, **words):
    print(json.dumps({"what": what, **words}), flush=True)


def main():
    # Of a stop heap of two packets the package says that it is incomplete.
    logging.getLogger("spead2").setLevel(logging.ERROR)
    rng = random.Random(int(sys.argv[1]))
    turns, kinds, sizes = (itertools.cycle(all_of_it) for all_of_it in (KINDS, KINDS, SIZES))
    # Seven sizes, three for each flavour over each transport: each size comes with both transports.
    plan = [(t, bits, next(sizes)) for bits in FLAVOURS for t in TRANSPORTS for _ in range(3)]
    counts = {what: Counter() for what in ("groups", "heaps", "kinds", "pairs", "traits", "flavours", "packets")}
    numbers = iter(range(GROUPS))
    for n, place in enumerate(plan):
        stream = Stream(rng, turns, kinds, counts, *place)
        for turn in range(GROUPS // len(plan) + (n < GROUPS % len(plan))):
            stream.exchange(next(numbers), large=turn == 0)
        stream.end()
        # Else the package may hang when the program ends.
        del stream
    say("report", **counts)


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        say("error", why=traceback.format_exc())
        sys.exit(1)
