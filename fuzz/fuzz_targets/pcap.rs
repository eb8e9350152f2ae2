//! Any bytes as a capture file: no panic, no endless loop, every frame accounted for, and no
//! datagram longer than the file.
#![no_main]

use std::sync::Mutex;

use fullcount_io::pcap::{CaptureReader, Datagrams, Tail};
use libfuzzer_sys::fuzz_target;

/// 2 MiB of memory handed from run to run: clearing it would take most of the time.
static BUFFER: Mutex<Option<Box<[u8]>>> = Mutex::new(None);

fn open(file: &[u8]) -> Option<CaptureReader<&[u8]>> {
    let kept = BUFFER.lock().expect("a panic ends the run").take();
    let opened = match kept {
        Some(buffer) => CaptureReader::with_buffer(file, buffer),
        None => CaptureReader::new(file),
    };
    opened.ok()
}

fn keep(buffer: Box<[u8]>) {
    *BUFFER.lock().expect("a panic ends the run") = Some(buffer);
}

fuzz_target!(|file: &[u8]| {
    let Some(reader) = open(file) else { return };
    let mut capture = Datagrams::new(reader, None);
    let (mut datagrams, mut bytes) = (0, 0);
    while let Some(d) = capture.next().expect("memory cannot fail") {
        assert!(d.payload.len() <= file.len());
        datagrams += 1;
        bytes += d.payload.len() as u64;
    }
    assert!(capture.next().expect("memory cannot fail").is_none(), "the end is the end");
    let t = capture.tally();
    assert_eq!((t.balance(), t.datagrams, t.bytes), (0, datagrams, bytes), "{t:?}");
    assert!(t.frames <= file.len() as u64 / 12, "a record takes at least 12 bytes");
    assert!(t.truncated + t.damaged <= 1);
    let tail = match (t.truncated, t.damaged) {
        (0, 0) => Tail::Complete,
        (1, _) => Tail::Truncated,
        _ => Tail::Damaged,
    };
    keep(capture.into_buffer());
    let mut again = open(file).expect("it was a capture before");
    while again.next().expect("memory cannot fail").is_some() {}
    assert_eq!(again.tail(), tail);
    keep(again.into_buffer());
});
