//! The journal of systemd in its own protocol: one datagram a message, fields by name.
//!
//! Text is bounded to 32 KiB, so that a datagram is far below what a socket takes (212,992 bytes unless the host was changed), and no file in
//! memory has to be handed over. Refuses nothing. Source: systemd's "Native Journal Protocol", systemd.journal-fields(7).

use fullcount_log::LogLine;
use fullcount_log::filter::origin;

use super::gelf::Sender;

/// Where the journal listens.
pub const SOCKET: &str = "/run/systemd/journal/socket";
/// Bytes of a value at most.
const LARGEST: usize = 32 << 10;

/// One field. A value of several lines has its length before it.
fn field(to: &mut Vec<u8>, name: &str, value: &str) {
    let mut end = value.len().min(LARGEST);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    let value = &value.as_bytes()[..end];
    to.extend(name.as_bytes());
    if value.contains(&b'\n') {
        to.push(b'\n');
        to.extend((value.len() as u64).to_le_bytes());
    } else {
        to.push(b'=');
    }
    to.extend(value);
    to.push(b'\n');
}

/// One message.
pub fn datagram(line: &LogLine, sender: &Sender) -> Vec<u8> {
    let mut all = Vec::new();
    let mut put = |name: &str, value: &str| field(&mut all, name, value);
    put("MESSAGE", &line.told());
    put("PRIORITY", &(line.level as u8).to_string());
    put("SYSLOG_IDENTIFIER", "fullcount");
    put("SYSLOG_FACILITY", "3");
    put("CODE_FILE", line.place.0);
    put("CODE_LINE", &line.place.1.to_string());
    put("FULLCOUNT_TARGET", origin(line.target));
    put("FULLCOUNT_DETECTOR", &sender.detector);
    put("FULLCOUNT_THREAD", &line.thread);
    let mut left = 48 << 10;
    for (name, value) in &line.fields {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        // All fields together stay bounded; a name is upper case.
        if text.len() > left {
            break;
        }
        left -= text.len();
        put(&format!("FULLCOUNT_{}", name.to_ascii_uppercase()), &text);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_log::LogLevel;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The receiver's side, from the protocol's text.
    fn read(mut bytes: &[u8]) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        while !bytes.is_empty() {
            let at = bytes.iter().position(|b| *b == b'\n').expect("a line");
            let (line, rest) = (&bytes[..at], &bytes[at + 1..]);
            let (name, value, rest) = match line.iter().position(|b| *b == b'=') {
                Some(at) => (&line[..at], &line[at + 1..], rest),
                None => {
                    let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
                    assert_eq!(rest[8 + length], b'\n');
                    (line, &rest[8..8 + length], &rest[9 + length..])
                }
            };
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            all.insert(text(name), text(value));
            bytes = rest;
        }
        all
    }

    fn sender() -> Sender {
        Sender { host: "daq".into(), detector: "tube".into() }
    }

    #[test]
    fn a_message_has_the_fields_that_journalctl_asks_for() {
        let mut line =
            LogLine::now(LogLevel::Critical, "fullcount_kafka::link", "a=b\nsecond".into());
        line.place = ("link.rs", 9);
        line.fields = vec![("topic", "t".into()), ("rate", 0.5.into())];
        let all = read(&datagram(&line, &sender()));
        for (name, value) in [
            ("MESSAGE", "a=b\nsecond"),
            ("PRIORITY", "2"),
            ("SYSLOG_IDENTIFIER", "fullcount"),
            ("CODE_FILE", "link.rs"),
            ("CODE_LINE", "9"),
            ("FULLCOUNT_TARGET", "kafka::link"),
            ("FULLCOUNT_DETECTOR", "tube"),
            ("FULLCOUNT_TOPIC", "t"),
            ("FULLCOUNT_RATE", "0.5"),
        ] {
            assert_eq!(all[name], value, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_back_and_bounded(text: String, many in 0usize..3000) {
            let text = text.repeat(many % 50 + 1);
            let mut line = LogLine::now(LogLevel::Info, "fullcount_run", text);
            for _ in 0..16 { line.with("field", "x".repeat(many * 10).into()); }
            let bytes = datagram(&line, &sender());
            prop_assert!(bytes.len() < 120 << 10);
            prop_assert_eq!(&read(&bytes)["MESSAGE"], &line.told());
        }
    }
}
