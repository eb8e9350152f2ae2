//! Cases and files of `vectors/spead`.

use std::path::PathBuf;

use fullcount_io::endpoint::Ip;
use fullcount_io::pcap::{CaptureReader, Datagrams};
use serde_json::Value;

use crate::sha256::sha256;

/// A file of the vectors.
pub fn file(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/spead").join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// All cases.
pub fn cases() -> Vec<Value> {
    let all: Value = serde_json::from_slice(&file("expected.json")).unwrap();
    all["cases"].as_array().unwrap().clone()
}

/// The case of a name.
pub fn case(name: &str) -> Value {
    cases().into_iter().find(|c| c["name"] == name).unwrap()
}

/// UDP payloads of a capture, as spead2's reader selects them: untagged IPv4 in whole frames; of one port if a filter says so.
pub fn datagrams(name: &str, filter: &str) -> Vec<Vec<u8>> {
    datagrams_of(&file(name), filter, Ip::PlainV4)
}

/// UDP payloads of these packets in a capture.
pub fn datagrams_of(bytes: &[u8], filter: &str, ip: Ip) -> Vec<Vec<u8>> {
    let port = filter.split_whitespace().last().and_then(|word| word.parse().ok());
    assert!(filter.is_empty() || port.is_some(), "{filter}");
    let reader = CaptureReader::new(bytes).unwrap();
    let mut frames = Datagrams::new(reader, port).only(ip);
    let mut all = vec![];
    while let Some(datagram) = frames.next().unwrap() {
        all.push(datagram.payload.to_vec());
    }
    all
}

/// Long data is given by its hash and both ends.
pub fn assert_data(data: &[u8], expected: &Value, at: &str) {
    assert_eq!(data.len() as u64, expected["length"], "{at}");
    match expected["hex"].as_str() {
        Some(hex) => assert_eq!(self::hex(data), hex, "{at}"),
        None => assert_eq!(sha256(data), expected["sha256"], "{at}"),
    }
}

pub fn hex(data: &[u8]) -> String {
    data.iter().map(|b| format!("{b:02x}")).collect()
}

pub fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|n| u8::from_str_radix(&text[n..n + 2], 16).unwrap()).collect()
}
