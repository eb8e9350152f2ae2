#!/usr/bin/env python3
"""SPEAD test vectors, made with the spead2 package as the peer.

Usage:  python3 make_vectors.py OUTPUT_DIR

Needs: python3, numpy, `pip install spead2` (the stored files were made with
spead2 4.5.1).  The chunk case also needs a C compiler (`cc`); without one it
is left out.  Only 127.0.0.1 is used.
"""
import ctypes
import hashlib
import json
import logging
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import spead2
import spead2.recv
import spead2.send

SMALL = 256          # values longer than this are given as sha256 + first/last 16 bytes


# ---------------------------------------------------------------- helpers
def pat(n, seed=0):
    """The byte pattern used for payloads: b[i] = (seed + 131*i + 17*(i >> 8)) mod 256."""
    i = np.arange(n, dtype=np.uint64)
    return ((seed + 131 * i + 17 * (i >> np.uint64(8))) & np.uint64(255)).astype(np.uint8).tobytes()


def minstd(n, skip=0):
    """Outputs skip .. skip+n-1 of x <- 48271 x mod (2^31 - 1), x0 = 1 (first output 48271)."""
    m, a = 2147483647, 48271
    x = pow(a, skip, m)
    out = np.empty(n, dtype=np.uint32)
    for k in range(n):
        x = x * a % m
        out[k] = x
    return out


def blob(b):
    b = bytes(b)
    if len(b) <= SMALL:
        return {"length": len(b), "hex": b.hex()}
    return {"length": len(b), "sha256": hashlib.sha256(b).hexdigest(),
            "first16": b[:16].hex(), "last16": b[-16:].hex()}


class RawItem:
    def __init__(self, id, data, allow_immediate=True):
        self.id, self._d, self._a = id, bytearray(data), allow_immediate

    def to_buffer(self):
        return self._d

    def allow_immediate(self):
        return self._a


class RawDesc:
    """Descriptor given by its wire-level fields."""

    def __init__(self, id, name, description="", shape=(), format=(), numpy_header=""):
        self.f = (id, name, description, list(shape), list(format), numpy_header)

    def to_raw(self, flavour):
        r = spead2._spead2.RawDescriptor()
        r.id = self.f[0]
        r.name = self.f[1].encode()
        r.description = self.f[2].encode()
        r.shape = self.f[3]
        r.format = self.f[4]
        r.numpy_header = self.f[5].encode()
        return r


def parse_packet(b):
    """Independent reading of one SPEAD packet at the start of b (None: not decodable)."""
    if len(b) < 8:
        return None
    magic, ver, iw, hw, res, n = struct.unpack(">BBBBHH", b[:8])
    if magic != 0x53 or ver != 4 or iw == 0 or hw == 0 or iw + hw != 8 or 8 + 8 * n > len(b):
        return None
    bits = 8 * hw
    its = []
    for k in range(n):
        p = int.from_bytes(b[8 + 8 * k:16 + 8 * k], "big")
        its.append([p >> 63, (p >> bits) & ((1 << (63 - bits)) - 1), p & ((1 << bits) - 1)])
    sp = {i[1]: i[2] for i in its if i[0]}
    if not all(x in sp for x in (1, 3, 4)):
        return None
    size = 8 + 8 * n + sp[4]
    if size > len(b):
        return None
    return {"size": size, "addr_bits": bits, "n_items": n, "heap_cnt": sp[1], "heap_length": sp.get(2, -1),
            "payload_offset": sp[3], "payload_length": sp[4], "items": its}


def split_packets(b):
    out, o = [], 0
    while o < len(b):
        p = parse_packet(b[o:o + 8 + 8 * 65535 + (1 << 24)]) if len(b) - o > 1 << 20 else parse_packet(b[o:])
        if p is None:
            raise RuntimeError("unparsable at %d" % o)
        out.append(b[o:o + p["size"]])
        o += p["size"]
    return out


def describe_packets(pkts, edge=None):
    out = []
    o = 0
    idx = range(len(pkts))
    for k in idx:
        p = parse_packet(pkts[k])
        if p is None:
            p = {"size": len(pkts[k]), "undecodable": True}
        else:
            p = dict(p)
            p["items"] = [{"mode": "immediate" if i[0] else "address", "id": i[1], "value": i[2]}
                          for i in p["items"] if i[1] not in (1, 2, 3, 4) or not i[0]]
        p["index"] = k
        p["stream_offset"] = o
        o += len(pkts[k])
        if edge is None or k < edge or k >= len(pkts) - edge:
            out.append(p)
    return out


# ---------------------------------------------------------------- heaps to send
def desc(id, name, description="", shape=(), format=None, dtype=None, order="C"):
    return ("desc", spead2.Descriptor(id, name, description, shape, dtype=dtype, format=format, order=order))


def rawdesc(*a, **k):
    return ("desc", RawDesc(*a, **k))


def item(id, data, allow_immediate=True, gen=None):
    return ("item", id, bytes(data), allow_immediate, gen)


def pitem(id, n, seed=0, allow_immediate=True):
    return item(id, pat(n, seed), allow_immediate, {"pat": [n, seed]})


def mitem(id, n, skip, allow_immediate=True):
    """n elements, unsigned 32-bit big-endian, outputs skip.. of the generator minstd()."""
    return item(id, minstd(n, skip).astype(">u4").tobytes(), allow_immediate, {"minstd_u32_big_endian": [n, skip]})


def val(id, name, description="", shape=(), format=None, dtype=None, order="C", value=None):
    """Descriptor + value encoded by spead2's python item layer."""
    it = spead2.Item(id, name, description, shape, dtype=dtype, format=format, order=order, value=value)
    return [("desc", it), ("value", it)]


START, END = ("start",), ("end",)


def make_heap(entries, flavour, repeat=False):
    h = spead2.send.Heap(flavour)
    rec = []
    for e in entries:
        if e[0] == "desc":
            h.add_descriptor(e[1])
            r = e[1].to_raw(flavour)
            rec.append({"kind": "descriptor", "id": r.id, "name": bytes(r.name).decode(),
                        "description": bytes(r.description).decode(),
                        "shape": [None if x is None or x < 0 else x for x in r.shape],
                        "format": [[c if isinstance(c, str) else chr(c), n] for c, n in r.format],
                        "numpy_header": bytes(r.numpy_header).decode()})
        elif e[0] == "item":
            h.add_item(RawItem(e[1], e[2], e[3]))
            rec.append({"kind": "item", "id": e[1], "allow_immediate": e[3], "data": blob(e[2])})
            if e[4]:
                rec[-1]["data"]["generator"] = e[4]
            else:
                rec[-1]["data"]["hex"] = e[2].hex()
        elif e[0] == "value":
            h.add_item(e[1])
            b = np.ascontiguousarray(np.asarray(e[1].to_buffer())).tobytes() if not isinstance(
                e[1].to_buffer(), (bytearray, bytes)) else bytes(e[1].to_buffer())
            rec.append({"kind": "item", "id": e[1].id, "allow_immediate": e[1].allow_immediate(),
                        "data": dict(blob(b), hex=b.hex())})
        elif e[0] == "start":
            h.add_start()
            rec.append({"kind": "inline", "id": 6, "value": 0})
        elif e[0] == "end":
            h.add_end()
            rec.append({"kind": "inline", "id": 6, "value": 2})
    h.repeat_pointers = repeat
    return h, rec


TP = spead2.ThreadPool()
logging.disable(logging.CRITICAL)


def send_stream(heaps, stream, rec_cnt=None):
    for h, cnt in heaps:
        stream.send_heap(h, cnt) if cnt is not None else stream.send_heap(h)


def to_bytes(heaps, packet):
    s = spead2.send.BytesStream(TP, spead2.send.StreamConfig(max_packet_size=packet))
    send_stream(heaps, s)
    return s.getvalue()


# ---------------------------------------------------------------- what spead2 receives
def jval(v):
    if isinstance(v, np.ndarray):
        return [jval(x) for x in v] if v.dtype.names is None or v.ndim else jval(v[()])
    if isinstance(v, np.void):
        if v.dtype.names:
            return {n: jval(v[n]) for n in v.dtype.names}
        return bytes(v).hex()
    if isinstance(v, (np.complexfloating, complex)):
        return [float(v.real), float(v.imag)]
    if isinstance(v, (np.bool_, bool)):
        return bool(v)
    if isinstance(v, (np.integer, int)):
        return int(v)
    if isinstance(v, (np.floating, float)):
        return float(v)
    if isinstance(v, (bytes, np.bytes_)):
        return bytes(v).decode("latin-1")
    if isinstance(v, (str, np.str_)):
        return str(v)
    if isinstance(v, (list, tuple)):
        return [jval(x) for x in v]
    return repr(v)


def drain(stream, group=None, values=True):
    heaps = []
    group = group if group is not None else spead2.ItemGroup()
    for h in stream:
        d = {"cnt": h.cnt, "addr_bits": h.flavour.heap_address_bits}
        if isinstance(h, spead2.recv.IncompleteHeap):
            d["kind"] = "incomplete"
            d["heap_length"] = h.heap_length
            d["received_length"] = h.received_length
            d["payload_ranges"] = [list(r) for r in h.payload_ranges]
        else:
            d["kind"] = "heap"
        d["start_of_stream"] = h.is_start_of_stream()
        d["end_of_stream"] = h.is_end_of_stream()
        its = []
        for i in h.get_items():
            e = {"id": i.id, "immediate": bool(i.is_immediate)}
            if i.is_immediate:
                e["value"] = i.immediate_value
            else:
                e.update(blob(memoryview(i)))
            its.append(e)
        d["items"] = its
        if d["kind"] == "heap":
            ds = []
            for r in h.get_descriptors():
                ds.append({"id": r.id, "name": bytes(r.name).decode("latin-1"),
                           "description": bytes(r.description).decode("latin-1"),
                           "shape": [None if x is None or x < 0 else x for x in r.shape],
                           "format": [[c if isinstance(c, str) else chr(c), n] for c, n in r.format],
                           "numpy_header": bytes(r.numpy_header).decode("latin-1")})
            d["descriptors"] = ds
            if values:
                try:
                    ch = group.update(h)
                    d["values"] = {k: jval(it.value) if np.size(it.value) <= 512 else
                                   {"elements": int(np.size(it.value)),
                                    "sha256_big_endian": hashlib.sha256(np.asarray(it.value).astype(
                                        np.asarray(it.value).dtype.newbyteorder(">")).tobytes()).hexdigest()}
                                   for k, it in ch.items()}
                except ValueError as e:
                    d["values_error"] = str(e)
        heaps.append(d)
    return heaps


STATS = ("heaps", "incomplete_heaps_evicted", "incomplete_heaps_flushed", "packets", "single_packet_heaps")


def receive(feed, cfg=None, values=True):
    """feed(stream) adds the reader.  Returns heaps in delivery order + the stable statistics."""
    cfg = dict(cfg or {})
    sc = spead2.recv.StreamConfig(**cfg)
    rc = spead2.recv.RingStreamConfig(heaps=4096, contiguous_only=False, incomplete_keep_payload_ranges=True)
    s = spead2.recv.Stream(TP, sc, rc)
    feed(s)
    heaps = drain(s, values=values)
    s.stop()
    st = s.stats
    return {"config": {"max_heaps": sc.max_heaps, "substreams": sc.substreams, "bug_compat": sc.bug_compat,
                       "allow_out_of_order": sc.allow_out_of_order, "allow_unsized_heaps": sc.allow_unsized_heaps,
                       "stop_on_stop_item": sc.stop_on_stop_item},
            "heaps": heaps, "stats": {k: st[k] for k in STATS}}


# ---------------------------------------------------------------- frames and capture files
def csum(b):
    if len(b) & 1:
        b += b"\0"
    s = sum(struct.unpack(">%dH" % (len(b) // 2), b))
    while s >> 16:
        s = (s & 0xffff) + (s >> 16)
    return ~s & 0xffff


def udp4(payload, sport=40000, dport=7148, ident=0, df=True, udp_len=None, src="127.0.0.1", dst="127.0.0.1"):
    s, d = socket.inet_aton(src), socket.inet_aton(dst)
    ul = 8 + len(payload) if udp_len is None else udp_len
    u = struct.pack(">HHHH", sport, dport, ul, 0)
    c = csum(s + d + struct.pack(">BBH", 0, 17, ul) + u + payload) or 0xffff
    u = u[:6] + struct.pack(">H", c) + payload
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(u), ident, 0x4000 if df else 0, 64, 17, 0) + s + d
    return ip[:10] + struct.pack(">H", csum(ip)) + ip[12:] + u


def ip4_fragments(pkt, first):
    """Split an IPv4 packet in two fragments, `first` payload bytes (multiple of 8) in the first."""
    hdr, body = bytearray(pkt[:20]), pkt[20:]
    out = []
    for off, part, mf in ((0, body[:first], 0x2000), (first, body[first:], 0)):
        h = bytearray(hdr)
        h[2:4] = struct.pack(">H", 20 + len(part))
        h[6:8] = struct.pack(">H", mf | off // 8)
        h[10:12] = b"\0\0"
        h[10:12] = struct.pack(">H", csum(bytes(h)))
        out.append(bytes(h) + part)
    return out


def udp6(payload, sport=40000, dport=7148):
    a = bytes(15) + b"\1"
    u = struct.pack(">HHHH", sport, dport, 8 + len(payload), 0)
    c = csum(a + a + struct.pack(">IHBB", len(u) + len(payload), 0, 0, 17) + u + payload) or 0xffff
    return struct.pack(">IHBB", 0x60000000, 8 + len(payload), 17, 64) + a + a + u[:6] + struct.pack(">H", c) + payload


ETH = bytes.fromhex("020000000002020000000001")


def eth(ippkt, ethertype=0x0800, vlan=None, pad=0):
    v = struct.pack(">HH", 0x8100, vlan) if vlan is not None else b""
    return ETH + v + struct.pack(">H", ethertype) + ippkt + bytes(pad)


def sll(ippkt, proto=0x0800):
    return struct.pack(">HHH8sH", 0, 1, 6, bytes.fromhex("0200000000010000"), proto) + ippkt


def pcap(frames, linktype=1, endian="<", nano=False, t0=1700000000):
    """frames: bytes, or (bytes, original_length) for a frame cut by the snap length."""
    out = struct.pack(endian + "IHHiIII", 0xa1b23c4d if nano else 0xa1b2c3d4, 2, 4, 0, 0, 262144, linktype)
    for k, f in enumerate(frames):
        f, n = f if isinstance(f, tuple) else (f, len(f))
        out += struct.pack(endian + "IIII", t0, k * (1000 if nano else 1), len(f), n) + f
    return out


def pcapng(frames, linktype=1):
    def block(t, body):
        body += bytes(-len(body) % 4)
        n = 12 + len(body)
        return struct.pack("<II", t, n) + body + struct.pack("<I", n)
    out = block(0x0a0d0d0a, struct.pack("<IHHq", 0x1a2b3c4d, 1, 0, -1))
    out += block(1, struct.pack("<HHI", linktype, 0, 262144))
    for k, f in enumerate(frames):
        ts = 1700000000 * 10**6 + k
        out += block(6, struct.pack("<IIIII", 0, ts >> 32, ts & 0xffffffff, len(f), len(f)) + f)
    return out


# ---------------------------------------------------------------- live captures on 127.0.0.1
def capture_udp(n_dest, packet, go):
    """Send with UdpStream to n_dest sockets; returns the list of datagrams of each."""
    socks = []
    for _ in range(n_dest):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        s.bind(("127.0.0.1", 0))
        s.settimeout(0.5)
        socks.append(s)
    st = spead2.send.UdpStream(TP, [("127.0.0.1", s.getsockname()[1]) for s in socks],
                               spead2.send.StreamConfig(max_packet_size=packet, rate=50e6, max_heaps=16))
    go(st)
    del st
    out = []
    for s in socks:
        got = []
        while True:
            try:
                got.append(s.recv(65536))
            except socket.timeout:
                break
        out.append(got)
        s.close()
    return out


def capture_tcp(packet, go):
    l = socket.socket()
    l.bind(("127.0.0.1", 0))
    l.listen(1)
    buf = bytearray()

    def rd():
        c, _ = l.accept()
        while True:
            d = c.recv(1 << 16)
            if not d:
                break
            buf.extend(d)
        c.close()
    t = threading.Thread(target=rd)
    t.start()
    st = spead2.send.TcpStream(TP, [("127.0.0.1", l.getsockname()[1])],
                               spead2.send.StreamConfig(max_packet_size=packet, max_heaps=16))
    go(st)
    del st
    t.join()
    l.close()
    return bytes(buf)


def feed_tcp(data, max_size=65536, chunk=None):
    def f(stream):
        l = socket.socket()
        l.bind(("127.0.0.1", 0))
        l.listen(1)
        port = l.getsockname()[1]
        stream.add_tcp_reader(l, max_size)
        l.close()
        c = socket.socket()
        c.connect(("127.0.0.1", port))

        def w():
            if chunk:
                for o in range(0, len(data), chunk):
                    c.sendall(data[o:o + chunk])
                    time.sleep(0.0005)
            else:
                c.sendall(data)
            c.close()
        threading.Thread(target=w).start()
    return f


# ---------------------------------------------------------------- the set
class Set:
    def __init__(self, out):
        self.out = out
        self.cases = []
        os.makedirs(out, exist_ok=True)

    def write(self, name, data):
        with open(os.path.join(self.out, name), "wb") as f:
            f.write(data)

    def add(self, name, about, container, data, receive=None, send=None, packets=None, edge=None, **extra):
        ext = {"stream": "bin", "tcp": "bin", "pcap": "pcap", "pcapng": "pcapng"}[container]
        fn = name + "." + ext
        self.write(fn, data)
        c = {"name": name, "about": about, "container": container, "file": fn,
             "file_bytes": len(data), "file_sha256": hashlib.sha256(data).hexdigest()}
        if send is not None:
            c["send"] = send
        if packets is not None:
            c["packets"] = describe_packets(packets, edge)
            c["packet_count"] = len(packets)
        if receive is not None:
            c["receive"] = receive if isinstance(receive, list) else [receive]
        c.update(extra)
        self.cases.append(c)
        print("%-32s %8d bytes" % (name, len(data)))

    def finish(self, note):
        doc = {"format": "spead-vectors-1", "made_with": "spead2 " + spead2.__version__, "note": note,
               "pattern": "pat(n, seed)[i] = (seed + 131*i + 17*(i >> 8)) mod 256",
               "cases": self.cases}
        cases = doc.pop("cases")
        with open(os.path.join(self.out, "expected.json"), "w") as f:    # one case a line
            f.write(json.dumps(doc)[:-1] + ', "cases": [\n')
            f.write(",\n".join(json.dumps(c) for c in cases) + "\n]}\n")

    # a case made by sending `heaps` (list of entry lists) through a BytesStream
    def sent(self, name, about, heaps, packet=1472, bits=40, bug=0, repeat=False, cnts=None, cfgs=({},),
             seq=None, edge=None, values=True):
        fl = spead2.Flavour(4, 64, bits, bug)
        hs, rec = [], []
        cfgs = [dict(c, bug_compat=bug) if bug else c for c in cfgs]
        stream = spead2.send.BytesStream(TP, spead2.send.StreamConfig(max_packet_size=packet))
        if seq:
            stream.set_cnt_sequence(*seq)
        for k, e in enumerate(heaps):
            h, r = make_heap(e, fl, repeat)
            c = cnts[k] if cnts else None
            stream.send_heap(h, -1 if c is None else c)
            rec.append({"cnt": c, "entries": r})
        data = stream.getvalue()
        self.add(name, about, "stream", data,
                 receive=[receive(lambda s: s.add_buffer_reader(data), c, values) for c in cfgs],
                 send={"flavour": [4, 64, bits], "bug_compat": bug, "max_packet_size": packet,
                       "repeat_pointers": repeat, "cnt_sequence": list(seq) if seq else [1, 1], "heaps": rec},
                 packets=split_packets(data), edge=edge)
        return data

    def pcap_case(self, name, about, data, cfgs=({},), container="pcap", flt="", **extra):
        fn = os.path.join(self.out, name + (".pcapng" if container == "pcapng" else ".pcap"))
        with open(fn, "wb") as f:
            f.write(data)
        rs = []
        for c in cfgs:
            r = receive(lambda s: s.add_udp_pcap_file_reader(fn, flt), c)
            r["filter"] = flt
            rs.append(r)
        self.add(name, about, container, data, receive=rs, **extra)

    def edited(self, name, about, pkts, cfgs=({},), **extra):
        """A datagram sequence, one UDP datagram per packet, in a plain Ethernet pcap."""
        self.pcap_case(name, about, pcap([eth(udp4(p, ident=k)) for k, p in enumerate(pkts)]), cfgs,
                       packets=list(pkts), **extra)


def hdr(n, iw=3, hw=5, magic=0x53, ver=4, res=0):
    return struct.pack(">BBBBHH", magic, ver, iw, hw, res, n)


def imm(id, v, bits=40):
    return struct.pack(">Q", 1 << 63 | id << bits | v)


def adr(id, a, bits=40):
    return struct.pack(">Q", id << bits | a)


def pkt(cnt, length, off, payload, items=(), bits=40, plen=None, skip=(), res=0):
    """A packet built by hand: the four standard items (unless in skip), then items, then payload."""
    ps = []
    for id, v in ((1, cnt), (2, length), (3, off), (4, len(payload) if plen is None else plen)):
        if id not in skip and v is not None:
            ps.append(imm(id, v, bits))
    ps += list(items)
    return hdr(len(ps), 8 - bits // 8, bits // 8, res=res) + b"".join(ps) + payload


# ---------------------------------------------------------------- chunk receiver
CHUNK_C = r"""
#include <stddef.h>
#include <stdint.h>
typedef struct { const uint8_t *packet; size_t packet_size; int64_t *items; int64_t chunk_id; size_t heap_index;
    size_t heap_offset; uint64_t *batch_stats; uint8_t *extra; size_t extra_offset; size_t extra_size; } place_t;
/* items: [heap length, 0x1600 = position, 0x1601 = tag]; 4 heaps of %(len)d bytes per chunk */
void place(void *p, size_t n) {
    place_t *d = p;
    (void) n;
    if (d->items[0] != %(len)d || d->items[1] < 0) return;
    d->chunk_id = d->items[1] / 4;
    d->heap_index = d->items[1] %% 4;
    d->heap_offset = d->heap_index * %(len)d;
    if (d->items[2] >= 0) {
        d->extra[0] = (uint8_t) d->items[2];
        d->extra_offset = d->heap_index;
        d->extra_size = 1;
    }
}
/* the same with one present flag per packet of %(per)d payload bytes */
void place_packets(void *p, size_t n) {
    place_t *d = p;
    place(p, n);
    if (d->chunk_id >= 0) d->heap_index *= %(len)d / %(per)d;
}
"""


def chunk_capsule(length, per, name):
    d = tempfile.mkdtemp()
    c, so = os.path.join(d, "p.c"), os.path.join(d, "p.so")
    with open(c, "w") as f:
        f.write(CHUNK_C % {"len": length, "per": per})
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", so, c], check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    lib = ctypes.CDLL(so)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    sig = b"void (void *, size_t)"
    fn = ctypes.cast(getattr(lib, name), ctypes.c_void_p)
    return (new(fn, sig, None), lib, sig)


def chunk_receive(data, length, max_chunks, per=0, ooo=False, n_chunks=64):
    cap = chunk_capsule(length, per or length, "place_packets" if per else "place")
    if cap is None:
        return None
    cc = spead2.recv.ChunkStreamConfig(items=[spead2.HEAP_LENGTH_ID, 0x1600, 0x1601], max_chunks=max_chunks,
                                       place=cap, max_heap_extra=1)
    flags = 4 * (length // per if per else 1)
    if per:
        cc.enable_packet_presence(per)
    dr, fr = spead2.recv.ChunkRingbuffer(n_chunks), spead2.recv.ChunkRingbuffer(n_chunks)
    s = spead2.recv.ChunkRingStream(TP, spead2.recv.StreamConfig(max_heaps=4, allow_out_of_order=ooo), cc, dr, fr)
    for _ in range(n_chunks):
        s.add_free_chunk(spead2.recv.Chunk(data=np.full(4 * length, 0xEE, np.uint8), present=np.zeros(flags, np.uint8),
                                           extra=np.full(4, 0xEE, np.uint8)))
    s.add_buffer_reader(data)
    out = []
    for ch in dr:
        out.append({"chunk_id": ch.chunk_id, "present": [int(x) for x in ch.present],
                    "extra": bytes(ch.extra).hex(), "data": blob(np.asarray(ch.data).tobytes())})
    st = s.stats
    return {"max_chunks": max_chunks, "heap_length": length, "heaps_per_chunk": 4, "packet_presence_payload": per,
            "allow_out_of_order": ooo, "chunks": out,
            "stats": {k: st[k] for k in STATS + ("too_old_heaps", "rejected_heaps")}}


PLACE_RULE = ("place rule: the heap length must equal heap_length and item 0x1600 must be an immediate of the first "
              "packet seen, else the heap is refused (chunk id -1); chunk id = item 0x1600 div 4, heap index = item "
              "0x1600 mod 4, heap offset = heap index * heap_length; the low byte of item 0x1601, when present, goes "
              "to extra[heap index]; with packet presence the heap index is multiplied by the number of packets of a "
              "heap. Chunk data is 0xEE and flags are 0 before.")


# ================================================================ the cases
def build(S):
    NP = np.dtype
    # ---- small heaps and flavours
    one = [desc(0x1000, "raw", "sixteen bytes", (16,), dtype=NP("u1")), pitem(0x1000, 16, 5)]
    S.sent("one_item_small", "one heap: a numpy descriptor and one 16-byte item, one packet; then a stop heap",
           [one, [END]])
    for bits in (40, 48):
        S.sent("flavour_64_%d" % bits, "the same heap with SPEAD-64-%d, in packets of at most 104 bytes" % bits,
               [one + [item(0x1001, bytes(range(bits // 8)))], [END]], packet=104, bits=bits)
    # ---- sizes around limits
    for pk in (56, 64, 1471):
        S.sent("packet_size_%d" % pk, "one 100-byte item and one 3-byte immediate with max packet size %d" % pk,
               [[item(0x1000, pat(100, 1), False), item(0x1001, b"abc")], [END]], packet=pk)
    S.sent("empty_heap", "a heap without items: one dummy payload byte and a null item; then a stop heap",
           [[], [END]])
    S.sent("immediates", "items of 0 to 7 bytes: 0 to 5 bytes become immediates in SPEAD-64-40 (0 bytes: value 0); one "
           "with allow_immediate false stays addressed; a zero-length addressed item disappears at the receiver",
           [[item(0x1100 + n, pat(n, 0xA0 + n)) for n in range(8)] + [item(0x1200, b"\1\2\3", False),
                                                                       item(0x1201, b"", False)], [END]])
    S.sent("many_items", "300 immediates: the item pointers take three packets, the payload is padding and a null "
           "item is added",
           [[item(0x1000 + k, struct.pack(">I", 1000 + k)) for k in range(300)], [END]])
    S.sent("many_items_mixed", "60 addressed items of 1..60 bytes and 20 immediates, packet size 120",
           [[item(0x1000 + k, pat(k + 1, k), False) for k in range(60)]
            + [item(0x1100 + k, bytes([k, 255 - k])) for k in range(20)], [END]], packet=120)
    S.sent("repeat_pointers", "item pointers repeated in every packet of the heap (3 immediates, one 500-byte item)",
           [[item(0x1000, b"\0\0\1"), item(0x1001, b"\0\0\2"), pitem(0x1002, 500, 9), item(0x1003, b"\0\0\3")], [END]],
           packet=160, repeat=True)
    # ---- descriptors
    S.sent("descriptors_numpy", "numpy descriptors: byte orders, 2-D, Fortran order, structure, bool, bytes, complex",
           [sum([
               val(0x2000, "u2le", "little-endian", (4,), dtype=NP("<u2"), value=[1, 2, 3, 65535]),
               val(0x2001, "f4be", "big-endian 2x3", (2, 3), dtype=NP(">f4"), value=[[1, 2, 3], [4.5, -5.5, 1e10]]),
               val(0x2002, "i8f", "Fortran order", (2, 3), dtype=NP("<i8"), order="F",
                   value=np.array([[1, 2, 3], [-4, -5, -6]])),
               val(0x2003, "rec", "structure", (2,), dtype=NP([("a", "<i2"), ("b", ">f8"), ("c", "S3")]),
                   value=np.array([(1, 0.5, b"xyz"), (-2, -0.25, b"q")], NP([("a", "<i2"), ("b", ">f8"), ("c", "S3")]))),
               val(0x2004, "flag", "bool", (5,), dtype=NP("?"), value=[True, False, True, True, False]),
               val(0x2005, "cplx", "complex64", (2,), dtype=NP("<c8"), value=[1 + 2j, -3.5 - 4j]),
               val(0x2006, "scal", "0-d, becomes an immediate", (), dtype=NP("<u4"), value=0xDEADBEEF),
               val(0x2007, "scal8", "0-d of 8 bytes, addressed", (), dtype=NP("<i8"), value=-2),
           ], []), [END]])
    S.sent("descriptors_format", "SPEAD-format descriptors: native widths, variable length, string, structure",
           [sum([
               val(0x3000, "u32s", "scalar, immediate", (), format=[("u", 32)], value=0x12345678),
               val(0x3001, "i16s", "negative scalar", (), format=[("i", 16)], value=-2),
               val(0x3002, "u48s", "48-bit scalar, addressed in 64-40", (), format=[("u", 48)], value=0x123456789ABC),
               val(0x3003, "f64v", "fixed vector", (3,), format=[("f", 64)], value=[1.0, -2.5, 1e-300]),
               val(0x3004, "f32m", "variable 2-D", (None, 2), format=[("f", 32)], value=[[1, 2], [3, 4], [5, 6]]),
               val(0x3005, "text", "variable string", (None,), format=[("c", 8)], value="Hello SPEAD"),
               val(0x3006, "pair", "two fields", (2,), format=[("u", 8), ("i", 16)],
                   value=np.array([(1, -1), (255, 300)], NP("u1,>i2"))),
               val(0x3007, "bool", "bytes as booleans", (4,), format=[("b", 8)], value=[True, False, False, True]),
           ], []), [END]])
    S.sent("descriptors_bits", "SPEAD-format descriptors with fields that are not whole bytes (packed, most "
           "significant bit first)",
           [sum([
               val(0x3100, "u12", "12-bit values", (3,), format=[("u", 12)], value=[0x123, 0x456, 0xFFF]),
               val(0x3101, "b1", "bits", (11,), format=[("b", 1)], value=[1, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1]),
               val(0x3102, "mix", "4-bit u, 7-bit i, 32-bit f", (2,), format=[("u", 4), ("i", 7), ("f", 32)],
                   value=[(9, -64, 1.5), (15, 63, -0.125)]),
               val(0x3103, "u3s", "3-bit scalar (never immediate)", (), format=[("u", 3)], value=5),
           ], []), [END]], values=True)
    S.sent("descriptors_64_48", "the SPEAD-format descriptors in SPEAD-64-48: field widths change",
           [sum([
               val(0x300, "f32m", "variable 2-D", (None, 2), format=[("f", 32)], value=[[1, 2], [3, 4]]),
               val(0x301, "u48s", "48-bit scalar, immediate in 64-48", (), format=[("u", 48)], value=0x123456789ABC),
           ], []), [END]], bits=48)
    a = val(0x1500, "x", "first form", (2,), dtype=NP("<i4"), value=[1, 2])
    b = val(0x1500, "x", "second form", (3,), dtype=NP("<i4"), value=[7, 8, 9])
    c = val(0x1501, "x", "same name, other id", (1,), dtype=NP("<i4"), value=[5])
    S.sent("descriptor_changes", "descriptor-only heap, value-only heap, descriptor sent again unchanged, changed "
           "shape, changed id under the same name, value without any descriptor",
           [[a[0]], [a[1]], a, b, c, [item(0x1777, b"\0\0\0\0\0\0\0\1")], [END]])
    S.sent("pyspead_compat", "the bug-compatibility mode (descriptor widths, shape bit, byte order), SPEAD-64-48",
           [sum([
               val(0x300, "f32m", "variable", (None, 2), format=[("f", 32)], value=[[1, 2], [3, 4]]),
               val(0x301, "npy", "numpy", (3,), dtype=NP("<u2"), value=[1, 2, 3]),
           ], []), [END]], bits=48, bug=7)
    # ---- control, heap numbers
    S.sent("start_stop", "start heap, data heap, stop heap, a heap after the stop; received with and without "
           "stopping on the stop item",
           [[START], [item(0x1000, b"\0\0\0\0\7")], [END], [item(0x1000, b"\0\0\0\0\x08")]],
           cfgs=({}, {"stop_on_stop_item": False}))
    S.sent("cnt_sequence", "heap numbers from a sequence (first 100, step 7) and two explicit numbers in between",
           [[item(0x1000, bytes([k]))] for k in range(6)] + [[END]], seq=(100, 7),
           cnts=[None, None, 5, None, 1000000, None, None])
    # ---- 4 MiB heaps
    for pk in (1472, 8972):
        n = 1048576
        hdrs = "{'shape': (%d,), 'fortran_order': False, 'descr': '>u4'}" % n
        fl = spead2.Flavour()
        hs = [[rawdesc(0x1000, "Test item 0", "A test item with arbitrary value", numpy_header=hdrs),
               mitem(0x1000, n, 0)], [mitem(0x1000, n, n)], [END]]
        made = [make_heap(h, fl) for h in hs]
        data = to_bytes([(m[0], None) for m in made], pk)
        pkts = split_packets(data)
        keep = b"".join(pkts[:3]) + b"".join(pkts[-3:])
        S.add("big_4mib_%d" % pk, "two heaps of 4 MiB (the first with a descriptor) and a stop heap at max packet size "
              "%d: what the C++ send tool emits with 2 heaps and its verify option; the file has only the first 3 and "
              "the last 3 packets" % pk, "stream", keep,
              send={"flavour": [4, 64, 40], "max_packet_size": pk, "repeat_pointers": False, "cnt_sequence": [1, 1],
                    "heaps": [{"cnt": None, "entries": m[1]} for m in made]},
              packets=pkts, edge=3, stream_bytes=len(data), stream_sha256=hashlib.sha256(data).hexdigest(),
              receive_of_whole_stream=receive(lambda s: s.add_buffer_reader(data)))
    # ---- groups of heaps
    hs = [make_heap([pitem(0x1000 + k, n, k)], spead2.Flavour()) for k, n in enumerate((900, 100, 400))]
    for mode in ("ROUND_ROBIN", "SERIAL"):
        st = spead2.send.BytesStream(TP, spead2.send.StreamConfig(max_packet_size=256))
        st.send_heaps([spead2.send.HeapReference(h[0]) for h in hs], getattr(spead2.send.GroupMode, mode))
        data = st.getvalue()
        S.add("group_" + mode.lower(), "three heaps of 900, 100 and 400 bytes sent as one %s group, max packet size "
              "256" % mode, "stream", data, packets=split_packets(data),
              send={"flavour": [4, 64, 40], "max_packet_size": 256, "group": mode, "repeat_pointers": False,
                    "cnt_sequence": [1, 1], "heaps": [{"cnt": None, "entries": h[1]} for h in hs]},
              receive=[receive(lambda s: s.add_buffer_reader(data))])
    # ---- loss, order, duplicates
    def pk_of(entries, packet, cnt, bits=40):
        return split_packets(to_bytes([(make_heap(entries, spead2.Flavour(4, 64, bits))[0], cnt)], packet))
    A = pk_of([pitem(0x1000, 1000, 1)], 256, 1)
    B = pk_of([pitem(0x1000, 700, 2)], 256, 2)
    E = pk_of([END], 256, 99)
    both = ({}, {"allow_out_of_order": True})
    S.edited("order_swapped", "two packets of a heap exchanged; received in both ordering modes",
             [A[0], A[2], A[1]] + A[3:] + B + E, both)
    S.edited("order_first_last", "the first packet of the heap arrives last",
             A[1:] + [A[0]] + B + E, both)
    S.edited("missing_middle", "one packet missing in the middle of the first heap", A[:2] + A[3:] + B + E, both)
    S.edited("missing_last", "the last packet of the first heap is missing", A[:-1] + B + E, both)
    S.edited("missing_first", "the first packet of the first heap is missing", A[1:] + B + E, both)
    S.edited("duplicates", "every packet twice, and one packet again after the heap was complete",
             [p for q in A for p in (q, q)] + [A[1]] + B + E, both)
    one_p = pk_of([item(0x1000, pat(20, 1), False)], 256, 3)
    S.edited("duplicates_single", "a heap of one packet arrives twice: it is handed over twice; it also takes a place "
             "in the window each time, so the five-packet heap that was started before is evicted by the fourth of them",
             [A[0]] + one_p * 2 + [A[1]] + one_p + one_p + A[2:] + E, both)
    S.edited("missing_stop", "two heaps, the second incomplete, and no stop item: the end of the file ends it",
             A + B[:-1], both)
    heaps = [pk_of([pitem(0x1000, 300, k)], 256, 10 + k) for k in range(7)]
    S.edited("window_eviction", "seven heaps of two packets whose second packets come in a later order: with a window "
             "of 4 (and of 2) the oldest live heap is evicted when a further heap starts",
             [h[0] for h in heaps[:5]] + [heaps[0][1], heaps[4][1], heaps[1][1], heaps[5][0], heaps[6][0], heaps[3][1],
                                          heaps[6][1], heaps[5][1]] + E,
             ({}, {"max_heaps": 2}, {"max_heaps": 16}, {"max_heaps": 4, "allow_out_of_order": True}))
    S.edited("window_holes", "complete heaps also move the window: a heap that lost a packet is evicted after "
             "max_heaps further multi-packet or single-packet heaps",
             [heaps[0][0]] + heaps[1] + heaps[2] + heaps[3] + heaps[4] + [heaps[0][1]] + E, ({}, {"max_heaps": 8}))
    sub = [pk_of([pitem(0x1000, 300, k)], 256, c) for k, c in enumerate((4, 6, 8, 5, 10))]
    S.edited("substreams", "two producers with even and odd heap numbers, the even one runs ahead: with substreams=2 "
             "and max_heaps=2 the odd heap survives",
             [sub[3][0]] + sub[0] + sub[1] + sub[2] + sub[4] + [sub[3][1]] + E,
             ({"max_heaps": 2}, {"max_heaps": 2, "substreams": 2}, {"max_heaps": 1, "substreams": 2}))
    # ---- heaps without a known length (hand-built packets)
    p1 = [imm(6, 0), adr(0x1000, 0), adr(0x1001, 40)]
    U = [pkt(50, None, 0, pat(32, 3), p1), pkt(50, None, 32, pat(32, 4)), pkt(50, None, 64, pat(9, 5))]
    S.edited("unsized", "a heap whose packets carry no heap length: it is only handed over when evicted or flushed; "
             "then a stop heap; received with unsized heaps allowed, disallowed and out of order",
             U + E, ({}, {"allow_unsized_heaps": False}, {"allow_out_of_order": True}))
    S.edited("unsized_late_length", "only the last packet carries the heap length: complete at once",
             U[:2] + [pkt(50, 73, 64, pat(9, 5))] + E)
    S.edited("unsized_then_evicted", "unsized heap followed by five complete heaps: evicted as a contiguous heap",
             U + heaps[0] + heaps[1] + heaps[2] + heaps[3] + heaps[4] + E)
    # ---- malformed packets
    ok = pkt(7, 16, 0, pat(16, 7), [adr(0x1000, 0)])
    bad = [
        ("good", ok), ("wrong magic", b"\x54" + ok[1:]), ("wrong version", b"\x53\x05" + ok[2:]),
        ("item width 0", b"\x53\x04\x00\x08" + ok[4:]), ("widths do not add to 8", b"\x53\x04\x03\x06" + ok[4:]),
        ("reserved bits set: accepted", pkt(8, 16, 0, pat(16, 8), [adr(0x1000, 0)], res=0x1234)),
        ("number of items overflows the packet", hdr(60) + ok[8:]),
        ("no heap number", pkt(9, 16, 0, pat(16, 9), [adr(0x1000, 0)], skip=(1,))),
        ("no payload offset", pkt(9, 16, 0, pat(16, 9), [adr(0x1000, 0)], skip=(3,))),
        ("no payload length", pkt(9, 16, 0, pat(16, 9), [adr(0x1000, 0)], skip=(4,))),
        ("payload longer than the datagram", pkt(9, 24, 0, pat(16, 9), [adr(0x1000, 0)], plen=24)),
        ("bytes after the payload", pkt(9, 16, 0, pat(16, 9), [adr(0x1000, 0)], plen=12)),
        ("payload beyond the heap length", pkt(9, 16, 8, pat(16, 9), [adr(0x1000, 0)])),
        ("shorter than a header", b"\x53\x04\x03\x05\0\0"), ("empty", b""),
        ("item address beyond the heap length: never complete", pkt(10, 16, 0, pat(16, 10), [adr(0x1000, 20)])),
        ("standard items last and in another order",
         hdr(5) + adr(0x1000, 0) + imm(4, 16) + imm(3, 0) + imm(2, 16) + imm(1, 11) + pat(16, 11)),
        ("heap number as an address: refused", hdr(4) + adr(1, 12) + imm(2, 4) + imm(3, 0) + imm(4, 4) + b"abcd"),
        ("payload length 0, heap length 0", pkt(13, 0, 0, b"", [imm(0x1000, 1)])),
        ("heap 14, packet 1 of 2", pkt(14, 32, 0, pat(16, 14), [adr(0x1000, 0)])),
        ("heap 14 with another heap length: refused", pkt(14, 40, 16, pat(16, 15))),
        ("heap 14 with another flavour: refused", pkt(14, 32, 16, pat(16, 15), bits=48)),
        ("heap 14, packet 2 of 2", pkt(14, 32, 16, pat(16, 15))),
        ("heap 15, the same item pointer twice", pkt(15, 8, 0, pat(8, 1), [imm(0x1001, 5), imm(0x1001, 5),
                                                                           adr(0x1002, 0), adr(0x1002, 0)])),
        ("heap 16, two values for one id", pkt(16, 8, 0, pat(8, 1), [imm(0x1001, 9), imm(0x1001, 5), adr(0x1002, 0)])),
        ("heap 17, null items between items end the item before",
         pkt(17, 24, 0, pat(24, 1), [adr(0x1002, 0), adr(0, 10), adr(0x1003, 12), adr(0, 20), imm(0, 77)])),
        ("heap 18, stream control 1 and 3 and 9 have no effect",
         pkt(18, 1, 0, b"x", [imm(6, 1), imm(6, 3), imm(6, 9)])),
        ("heap 19, stop item as an address: does not stop", pkt(19, 8, 0, bytes(7) + b"\2", [adr(6, 0)])),
    ]
    S.edited("malformed", "one datagram per case; see datagrams for the reason", [b[1] for b in bad] + E, both,
             datagrams=[b[0] for b in bad] + ["stop"])
    # ---- TCP
    fl = spead2.Flavour()
    hs = [[desc(0x1000, "v", "values", (300,), dtype=NP("<u2")), pitem(0x1000, 600, 1), item(0x1001, b"\0\0\1")],
          [pitem(0x1000, 600, 2)], [pitem(0x1000, 600, 3)], [END]]
    made = [make_heap(h, fl) for h in hs]
    tcp = capture_tcp(200, lambda st: send_stream([(m[0], None) for m in made], st))
    same = tcp == to_bytes([(m[0], None) for m in made], 200)
    S.add("tcp_stream", "bytes that went over a TCP connection from a TcpStream (4 heaps, max packet size 200): "
          "packets back to back, nothing between or before them", "tcp", tcp, packets=split_packets(tcp),
          send={"flavour": [4, 64, 40], "max_packet_size": 200, "repeat_pointers": False, "cnt_sequence": [1, 1],
                "heaps": [{"cnt": None, "entries": m[1]} for m in made]},
          same_bytes_as_bytes_stream=same, receive=[receive(feed_tcp(tcp)), receive(feed_tcp(tcp, chunk=7))])
    part = split_packets(tcp)
    S.add("tcp_no_stop", "the same connection closed after the second heap, without a stop heap, in the middle of a "
          "packet", "tcp", b"".join(part[:7])[:-30], receive=[receive(feed_tcp(b"".join(part[:7])[:-30]))])
    big = pkt(60, 3000, 0, pat(3000, 1), [adr(0x1000, 0)])
    junk = b"\x53\x04\x03\x05\0\0\0\1" + b"\xff" * 8
    mixed = part[0] + big + b"".join(part[1:4]) + junk + b"".join(part[4:])
    S.add("tcp_skips", "a packet larger than the receiver's limit (2000 bytes here) is skipped, 16 junk bytes (a header "
          "without payload length) are skipped 8 at a time", "tcp", mixed,
          receive=[dict(receive(feed_tcp(mixed, max_size=2000)), tcp_max_packet_size=2000)])
    # ---- capture files
    live = capture_udp(1, 200, lambda st: send_stream([(m[0], None) for m in made], st))[0]
    fr = [eth(udp4(p, ident=k)) for k, p in enumerate(live)]
    S.pcap_case("udp_capture", "datagrams received on a 127.0.0.1 socket from a UdpStream, stored as Ethernet frames "
                "(frame, IP and UDP headers are made up)", pcap(fr), packets=live,
                send={"flavour": [4, 64, 40], "max_packet_size": 200, "repeat_pointers": False, "cnt_sequence": [1, 1],
                      "heaps": [{"cnt": None, "entries": m[1]} for m in made]})
    S.pcap_case("pcap_sll", "the same as Linux cooked capture (link type 113), nanosecond timestamps",
                pcap([sll(udp4(p, ident=k)) for k, p in enumerate(live)], 113, nano=True))
    S.pcap_case("pcap_ng", "the same as pcapng", pcapng(fr), container="pcapng")
    q = [udp4(p, ident=k) for k, p in enumerate(live)]
    f1, f2 = ip4_fragments(udp4(B[0], ident=77), 64)
    odd = [eth(q[0], vlan=5), eth(udp6(live[0]), 0x86dd), eth(f1), eth(f2), eth(q[0][:9] + b"\6" + q[0][10:]),
           (eth(q[0])[:100], len(eth(q[0]))), eth(q[0], pad=18)] + fr[1:]
    S.pcap_case("pcap_odd_frames", "frames that spead2 does not use before the good ones: VLAN tag, IPv6, two IP "
                "fragments, a TCP protocol number, a frame cut by the snap length; frame 7 is good but has Ethernet "
                "padding; received also with a capture filter", pcap(odd), ({},),
                frames=["vlan", "ipv6", "fragment 1 of 2", "fragment 2 of 2", "tcp", "truncated", "good, padded",
                        "the rest of udp_capture"])
    two = []
    for k, p in enumerate(live):
        two.append(eth(udp4(p, dport=7148, ident=2 * k)))
        two.append(eth(udp4(p, dport=7149, ident=2 * k + 1)))
    S.pcap_case("pcap_filter", "each datagram twice, to ports 7148 and 7149; read with the filter 'udp port 7149'",
                pcap(two), flt="udp port 7149")
    S.pcap_case("pcap_merged", "what a capture on the sending host shows when segmentation offload is on: several SPEAD "
                "packets merged in one UDP datagram; spead2 refuses them (sizes do not match), the packets can be "
                "split because each gives its own size",
                pcap([eth(udp4(b"".join(live[:4]))), eth(udp4(b"".join(live[4:])))]), packets=live)
    # ---- chunk receiver
    def chunk_heap(pos, seed, tag=None, n=160, cnt=None):
        its = [item(0x1600, struct.pack(">I", pos))] + ([item(0x1601, bytes([tag]))] if tag is not None else [])
        h, _ = make_heap(its + [pitem(0x1602, n, seed)], spead2.Flavour(), repeat=True)
        return split_packets(to_bytes([(h, cnt)], 128))
    order = [0, 1, 2, 3, 5, 4, 6, 9, 7, 8, 13, 2, 16, 10, 21, 22, 20, 23]
    hs = [chunk_heap(p, p, p + 1 if p % 3 else None, cnt=100 + k) for k, p in enumerate(order)]
    seqp = []
    for k, h in enumerate(hs):
        seqp += h[:-1] if k == 6 else h                  # the seventh heap loses its last packet
    seqp += chunk_heap(3, 9, n=72, cnt=300) + pk_of([END], 128, 400)
    data = b"".join(seqp)
    rs = [chunk_receive(data, 160, 2), chunk_receive(data, 160, 4), chunk_receive(data, 160, 1)]
    if rs[0]:
        S.add("chunks", "chunk receiver: heaps of 160 bytes placed by item 0x1600 in chunks of 4 heaps; one heap loses "
              "its last packet, some are too old, one has the wrong length", "stream", data, packets=seqp,
              place=PLACE_RULE, chunk_receive=rs)
        hs = [chunk_heap(p, 3 * p, p, n=192, cnt=p + 1) for p in range(6)]
        seqp = hs[0] + hs[1][:2] + hs[2][1:] + [hs[3][0], hs[3][2]] + [hs[4][2], hs[4][0], hs[4][1]] + hs[5] \
            + pk_of([END], 128, 400)
        data = b"".join(seqp)
        S.add("chunks_presence", "chunk receiver with one flag per packet (64 payload bytes): packets lost at the end, "
              "the start and the middle of heaps and out of order, in both ordering modes", "stream", data,
              packets=seqp, place=PLACE_RULE,
              chunk_receive=[chunk_receive(data, 192, 2, per=64, ooo=o) for o in (False, True)])


if __name__ == "__main__":
    s = Set(sys.argv[1])
    build(s)
    s.finish("packets made by spead2 unless the text of the case says hand-built or exchanged; 'receive' is what the "
             "spead2 receiver gives for the file with that configuration")
