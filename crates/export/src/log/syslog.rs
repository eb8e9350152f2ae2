//! syslog messages as RFC 5424 has them: one a datagram, or with their length in front over TCP (RFC 6587); for the socket of this host in
//! the form that its C library writes (RFC 3164 without a host), which every syslog daemon takes there.
//!
//! Refuses nothing: control characters of a text become blanks, so that a message is one line.

use fullcount_core::text::is_control;
use fullcount_log::LogLine;
use jiff::Timestamp;

use super::gelf::Sender;

/// Daemons.
const FACILITY: u8 = 3;
/// What every receiver must take (RFC 5424 section 6.1).
const LARGEST: usize = 2048;

/// A word of the head: visible ASCII, at most so long.
fn word(text: &str, most: usize) -> String {
    let word: String = text.chars().filter(char::is_ascii_graphic).take(most).collect();
    if word.is_empty() { "-".to_owned() } else { word }
}

/// One message, without what frames it.
pub fn line(told: &LogLine, sender: &Sender) -> Vec<u8> {
    let priority = FACILITY * 8 + told.level as u8;
    let time = Timestamp::from_millisecond(told.unix_ms as i64).unwrap_or(Timestamp::UNIX_EPOCH);
    let (host, id, kind) =
        (word(&sender.host, 255), std::process::id(), word(&sender.detector, 32));
    let mut line = format!("<{priority}>1 {time:.3} {host} fullcount {id} {kind} - \u{feff}");
    line.extend(text(told));
    bounded(line)
}

/// One message for the socket of this host, whose daemon adds its name and, as it comes configured, its own time.
pub fn local(told: &LogLine) -> Vec<u8> {
    let priority = FACILITY * 8 + told.level as u8;
    let time = Timestamp::from_millisecond(told.unix_ms as i64).unwrap_or(Timestamp::UNIX_EPOCH);
    let time = time.strftime("%b %e %H:%M:%S");
    let mut line = format!("<{priority}>{time} fullcount[{}]: ", std::process::id());
    line.extend(text(told));
    bounded(line)
}

/// The text as one line.
fn text(told: &LogLine) -> Vec<char> {
    told.told().chars().map(|c| if is_control(c) { ' ' } else { c }).collect()
}

fn bounded(mut line: String) -> Vec<u8> {
    while line.len() > LARGEST {
        line.pop();
    }
    line.into_bytes()
}

/// The same as TCP carries it.
pub fn counted(line: &[u8]) -> Vec<u8> {
    [format!("{} ", line.len()).as_bytes(), line].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_log::LogLevel;
    use proptest::prelude::*;

    fn sender() -> Sender {
        Sender { host: "daq 7".into(), detector: "tube".into() }
    }

    fn told(level: LogLevel, text: &str, unix_ms: u64) -> LogLine {
        let mut line = LogLine::now(level, "fullcount_run", text.into());
        line.unix_ms = unix_ms;
        line
    }

    #[test]
    fn the_head_is_that_of_rfc_5424_or_that_of_this_host() {
        let message = told(LogLevel::Error, "a\nb", 1_500_000_000_250);
        let text = String::from_utf8(line(&message, &sender())).unwrap();
        let id = std::process::id();
        assert_eq!(
            text,
            format!("<27>1 2017-07-14T02:40:00.250Z daq7 fullcount {id} tube - \u{feff}a b")
        );
        assert_eq!(counted(b"abc"), b"3 abc");
        let alert = told(LogLevel::Alert, "a\nb", 1_499_150_400_000);
        let text = String::from_utf8(local(&alert)).unwrap();
        assert_eq!(text, format!("<25>Jul  4 06:40:00 fullcount[{id}]: a b"));
        let turned = told(LogLevel::Alert, "a\u{202e}b\u{2028}c", 1_499_150_400_000);
        assert!(String::from_utf8(local(&turned)).unwrap().ends_with(": a b c"));
    }

    proptest! {
        #[test]
        fn any_text_is_one_line_of_bounded_length(text: String) {
            let message = told(LogLevel::Info, &text, u64::MAX);
            for line in [line(&message, &sender()), local(&message)] {
                let line = String::from_utf8(line).unwrap();
                prop_assert!(line.len() <= LARGEST && !line.contains(is_control));
            }
        }
    }
}
