//! Several URLs of one stream: its settings are those of the first, and the others may only repeat them.
//!
//! Refuses a key of the stream that a later URL gives with another value, naming both. Keys of one endpoint may differ. Source:
//! `docs/spead.md`, "Transports".

use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::url::{Scheme as _, SchemeKey, scheme, split};

use super::{SpeadInput, told};

/// Keys that each endpoint has for itself.
pub const OF_ONE_ENDPOINT: [&str; 5] = ["senders", "sockets", "max_packet", "framing", "low_water"];

type Key = SchemeKey<SpeadInput>;

/// SPEAD's keys in a URL that was read before, each with its text.
fn said(url: &str) -> Vec<(&'static Key, &str)> {
    let query = scheme(url).map_or("", |(_, rest)| split(rest).1);
    let known = |part| {
        let name = str::split(part, '=').next().unwrap_or_default();
        Some((SpeadInput::KEYS.iter().find(|key| key.name == name)?, part))
    };
    query.split('&').filter_map(known).collect()
}

/// What these keys say together, as far as a stream is concerned.
fn stream_of<'a>(keys: impl Iterator<Item = &'a str>) -> Option<SpeadInput> {
    // How it is said does not matter: without max_heap its default holds.
    Some(SpeadInput { heap_said: false, ..told(keys.collect()).ok()? })
}

/// The URLs of a stream agree about it.
///
/// # Errors
/// The first key of a later URL that would change what the first URL says.
pub fn agree(urls: &[String]) -> Result<(), Refusal> {
    let Some((first, later)) = urls.split_first() else { return Ok(()) };
    let holds = said(first);
    let stream = stream_of(holds.iter().map(|(_, part)| *part));
    for url in later {
        let own = said(url);
        for (key, part) in own.iter().filter(|(key, _)| !OF_ONE_ENDPOINT.contains(&key.name)) {
            let others = holds.iter().filter(|(other, _)| other.name != key.name);
            let changed = stream_of(others.map(|(_, part)| *part).chain([*part]));
            if changed.is_some() && changed == stream {
                continue;
            }
            let there = match holds.iter().find(|(other, _)| other.name == key.name) {
                Some((_, part)) => format!("says {part}"),
                None => format!("does not say it (default: {})", key.default),
            };
            let value = part.split_once('=').map_or("1", |(_, value)| value);
            let allowed = format!(
                "as in the first URL of the stream, which {there}: its keys hold for all; leave this one out of {url}, or say it in the first"
            );
            return Err(refuse(key.name, value, allowed));
        }
    }
    Ok(())
}
