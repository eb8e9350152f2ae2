//! Types of NumPy with the Python package spead2, as far as it takes them: times and time spans, which it receives and does not send;
//! structures, nested and with dimensions, both ways; objects, which both refuse; what it sends and ours does not read.
//!
//! Needs the Python of the tests, which has that package. All other kinds: `kinds.rs`, `peer.rs`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::*;
use crate::describe::DescriptorRefused;

/// Prints a line for each item that comes: its type, its bytes, and what became of it when it is sent back. Then the same of types that
/// it is to send by itself. What it sends is a file.
const SCRIPT: &str = r#"
import json, sys, pathlib
import numpy as np
import spead2, spead2.recv, spead2.send
folder = pathlib.Path(sys.argv[1])
pool = spead2.ThreadPool()

def send(name, group):
    out = spead2.send.BytesStream(pool, spead2.send.StreamConfig(max_packet_size=1472))
    out.send_heap(group.get_heap(descriptors="all", data="all"))
    (folder / name).write_bytes(out.getvalue())

def tried(name, dtype, shape, value):
    try:
        group = spead2.send.ItemGroup()
        group.add_item(0x1000, name, "", shape=shape, dtype=dtype, value=value)
        send(name, group)
    except ValueError as error:
        return str(error)
    return None

stream = spead2.recv.Stream(pool, spead2.recv.StreamConfig())
stream.add_buffer_reader((folder / "in").read_bytes())
group = spead2.ItemGroup()
heaps = list(stream)
assert len(heaps) == 1
group.update(heaps[0])
for item in group.values():
    value = np.asarray(item.value, dtype=item.dtype)
    said = {"name": item.name, "shape": value.shape, "bytes": value.tobytes(order="C").hex(),
            "descr": repr(np.lib.format.dtype_to_descr(item.dtype))}
    said["refused"] = tried(item.name, item.dtype, item.shape, item.value)
    print(json.dumps(said))
for name, dtype in json.loads(sys.argv[2]):
    dtype = np.lib.format.descr_to_dtype(eval(dtype))
    print(json.dumps({"name": name, "refused": tried(name, dtype, (2,), np.zeros(2, dtype))}))
"#;

fn header(descr: &str, shape: &str) -> NumpyHeader {
    let text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}");
    NumpyHeader::parse(&text).unwrap_or_else(|e| panic!("{descr}: {e}"))
}

/// Name, type, shape, and whether spead2 sends such.
const SENT: [(&str, &str, &str, bool); 14] = [
    ("ns", "'<M8[ns]'", "(3,)", false),
    ("us", "'>M8[us]'", "()", false),
    ("days", "'<M8[D]'", "(2, 2)", false),
    ("10us", "'<M8[10us]'", "(2,)", false),
    ("unitless", "'<M8'", "(2,)", false),
    ("span s", "'<m8[s]'", "(3,)", false),
    ("span h", "'>m8[h]'", "()", false),
    ("span", "'<m8'", "(2,)", false),
    ("time in it", "[('t', '<M8[ns]'), ('adc', '<u2')]", "(2,)", false),
    ("flat", "[('adc', '<u2'), ('gain', '>f4'), ('on', '|b1')]", "(3,)", true),
    ("one", "[('adc', '>i8')]", "()", true),
    ("array", "[('v', '<i2', (2, 3)), ('u', '>u4', (1,))]", "(2, 2)", true),
    (
        "nested",
        "[('iq', [('re', '<f4'), ('im', [('x', '>u2', (2,))])], (3,)), ('c', '<c8')]",
        "(2,)",
        true,
    ),
    ("texts", "[('s', '|S3'), ('w', '<U2'), ('raw', '|V5')]", "(2,)", true),
];

/// Of what has no letters or numbers that might be none: small bytes.
fn bytes_of(header: &NumpyHeader) -> Vec<u8> {
    (0..header.bytes().unwrap()).map(|n| (n % 2) as u8).collect()
}

/// Letters of four bytes and numbers have bytes 0 and 1, so that each is one: of a text, letters in the byte order of its type.
fn value_of(header: &NumpyHeader, name: &str) -> Vec<u8> {
    match name {
        // S3, two letters, V5.
        "texts" => b"abcA\0\0\0B\0\0\0\x01\x02\x03\x04\x05".repeat(2),
        _ => bytes_of(header),
    }
}

/// What Python said of each name.
fn python(folder: &Path, own: &[(&str, &str)]) -> Option<Vec<Value>> {
    let python = fullcount_testing::python::python()?;
    let own = serde_json::to_string(own).unwrap();
    let ran = Command::new(python).args(["-c", SCRIPT]).arg(folder).arg(own).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = String::from_utf8(ran.stdout).unwrap();
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// What spead2 sent under that name, in a group of ours.
fn came(folder: &Path, name: &str) -> ItemGroup {
    let mut stream = HeapReceiver::new(ReceiverConfig::default()).unwrap();
    stream.push_buffer(0, &std::fs::read(folder.join(name)).unwrap());
    let mut group = ItemGroup::new(BugCompat::default());
    group.update(&stream.pop().unwrap().heap().unwrap());
    group
}

#[test]
fn times_structures_and_objects_are_exchanged_as_far_as_spead2_takes_them() {
    let folder =
        std::env::temp_dir().join(format!("fullcount-spead-one-way-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut group = ItemGroup::new(BugCompat::default());
    for (n, (name, descr, shape, _)) in SENT.iter().enumerate() {
        let of = header(descr, shape);
        let id = group.add(Descriptor::numpy(0x1000 + n as u64, name, "", &of)).unwrap();
        let layout = group.get(id).unwrap().layout().unwrap();
        let bytes = value_of(&of, name);
        let value = layout.decode_bytes(&bytes, false, BugCompat::default()).unwrap();
        group.set(id, value).unwrap();
    }
    let mut generator = HeapGenerator::new(group.clone(), Flavour::new(40).unwrap(), None);
    let mut sender =
        HeapSender::new(SenderConfig { cut: rules(1472), ..Default::default() }).unwrap();
    sender.send(generator.heap(What::All, What::All).unwrap(), SendHow::default()).unwrap();
    std::fs::write(folder.join("in"), run(&mut sender).concat()).unwrap();
    // What spead2 refuses to send, and what it sends and ours does not read.
    let objects = [("object", "'|O'"), ("object in it", "[('a', '<u2'), ('b', '|O')]")];
    let longer = [("16 B floats", "'<f16'"), ("32 B complex", "'<c32'")];
    let own = [objects, longer].concat();
    let Some(said) = python(&folder, &own) else { return };
    assert_eq!(said.len(), SENT.len() + own.len());
    for (said, (name, descr, shape, back)) in said.iter().zip(&SENT) {
        let of = header(descr, shape);
        let hex: String = value_of(&of, name).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!((&said["name"], &said["bytes"]), (&Value::from(*name), &Value::from(hex)));
        let shape: Vec<usize> = serde_json::from_value(said["shape"].clone()).unwrap();
        assert_eq!(shape, of.shape, "{name}");
        let known = header(said["descr"].as_str().unwrap(), "()");
        assert_eq!(known.of, of.of, "{name}: {said}");
        if *back {
            assert_eq!(said["refused"], Value::Null, "{name}");
            let came = came(&folder, name);
            assert_eq!(came.counts(), Default::default(), "{name}");
            let sent = group.named(name).unwrap();
            assert_eq!(came.named(name).unwrap().value, sent.value, "{name}");
        } else {
            let kind = if descr.contains("m8") { 'm' } else { 'M' };
            let why = format!("cannot include dtype '{kind}' in a buffer");
            assert_eq!(said["refused"], Value::from(why), "{name}: spead2 sends it by now?");
        }
    }
    for (said, (name, descr)) in said[SENT.len()..].iter().zip(&own) {
        let text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (2,)}}");
        let why = NumpyHeader::parse(&text).unwrap_err();
        assert_eq!(DescriptorRefused::from(&why), DescriptorRefused::Type, "{name}: {why}");
        if descr.contains("|O") {
            let why = "Cannot use dtype that has reference-counted objects";
            assert_eq!((&said["name"], &said["refused"]), (&Value::from(*name), &Value::from(why)));
        } else {
            assert_eq!(said["refused"], Value::Null, "{name}");
            let counts = came(&folder, name).counts();
            assert_eq!((counts.refused.of(DescriptorRefused::Type), counts.undecodable), (1, 1));
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
