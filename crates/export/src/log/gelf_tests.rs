use super::*;
use flate2::read::{GzDecoder, ZlibDecoder};
use fullcount_log::LogLevel;
use std::io::Read;

fn line(text: &str) -> LogLine {
    let mut line = LogLine::now(LogLevel::Warning, "fullcount_kafka::link", text.into());
    line.place = ("a.rs", 7);
    line.unix_ms = 1_500_000_000_250;
    line
}

fn sender() -> Sender {
    Sender { host: "daq".into(), detector: "tube".into() }
}

fn inflated(bytes: &[u8], how: Smaller) -> Vec<u8> {
    let mut all = Vec::new();
    match how {
        Smaller::Gzip => GzDecoder::new(bytes).read_to_end(&mut all).unwrap(),
        Smaller::Zlib => ZlibDecoder::new(bytes).read_to_end(&mut all).unwrap(),
        Smaller::Off => {
            all.extend(bytes);
            0
        }
    };
    all
}

#[test]
fn an_object_has_the_members_that_its_readers_know() {
    let mut told = line("first\nsecond");
    told.fields = vec![("topic", "t".into()), ("file", "not this".into()), ("on", true.into())];
    told.fields.push(("id", "not allowed".into()));
    let bytes = object(&told, &sender());
    assert!(!bytes.contains(&0));
    let read: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let text = |key: &str| read[key].as_str().unwrap();
    assert_eq!((text("version"), text("host"), text("short_message")), ("1.1", "daq", "first"));
    assert_eq!(
        (text("full_message"), text("_process_name"), text("_file")),
        ("first\nsecond", "tube", "a.rs")
    );
    assert_eq!(
        (read["timestamp"].as_f64(), read["level"].as_u64()),
        (Some(1_500_000_000.25), Some(4))
    );
    assert_eq!((read["_line"].as_u64(), text("_process")), (Some(7), "fullcount"));
    assert_eq!((text("_target"), text("_topic"), text("_on")), ("kafka::link", "t", "true"));
    assert!(read["_process_id"].is_u64() && read["_thread_id"].is_string());
    assert!(read.get("_id").is_none(), "Graylog refuses the whole message");
}

#[test]
fn datagrams_hold_the_object_in_one_piece_or_in_numbered_chunks() {
    // What does not compress: numbers that look random.
    let mut seed = 1u64;
    let mut noise = |n: usize| -> Vec<u8> {
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as u8
        };
        (0..n).map(|_| next()).collect()
    };
    for how in [Smaller::Gzip, Smaller::Zlib, Smaller::Off] {
        let small = object(&line("small"), &sender());
        let one = datagrams(&small, how, 1);
        assert_eq!((one.len(), inflated(&one[0], how)), (1, small));
        let large = noise(10_000);
        let chunks = datagrams(&large, how, 0x0102_0304_0506_0708);
        assert!(chunks.len() > 7 && chunks.iter().all(|c| c.len() <= DATAGRAM));
        let mut whole = Vec::new();
        for (number, chunk) in chunks.iter().enumerate() {
            assert_eq!(chunk[..10], [0x1e, 0x0f, 1, 2, 3, 4, 5, 6, 7, 8]);
            assert_eq!((usize::from(chunk[10]), usize::from(chunk[11])), (number, chunks.len()));
            whole.extend_from_slice(&chunk[HEAD..]);
        }
        assert_eq!(inflated(&whole, how), large);
        assert!(datagrams(&noise(300_000), how, 1).is_empty());
    }
}
