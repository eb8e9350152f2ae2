//! `pcap:FILE` of `receive`: a capture of SPEAD packets is one of heaps, all others are of numbered packets.
//!
//! The first packet that is one of the two decides. Named pipes are not looked into: `spead+pcap:` reads heaps from them. Refuses nothing: what cannot be read is refused where it is opened.

use std::fs::File;
use std::io::BufReader;

use fullcount_core::url;
use fullcount_io::endpoint::PcapUrl;
use fullcount_io::pcap::Datagrams;
use fullcount_io::spead::{SpeadInput, SpeadUrl};
use fullcount_spead::SpeadPacket;

use crate::note;

/// Datagrams of other traffic before one that decides.
const LOOKED_AT: usize = 10_000;
/// What numbered packets begin with.
const NUMBERED: &[u8] = b"FCSQ";

/// The same URLs; captures of SPEAD packets are `spead+pcap:`, and that is said.
pub fn of_heaps(urls: Vec<String>) -> Vec<String> {
    urls.into_iter()
        .map(|url| match url.starts_with("pcap:") && holds_heaps(&url) {
            true => {
                note!("{url} holds SPEAD packets: it is read as spead+{url}");
                format!("spead+{url}")
            }
            false => url,
        })
        .collect()
}

fn holds_heaps(text: &str) -> bool {
    // Keys of heaps may stand among its own.
    let Ok(whole) = SpeadUrl::<SpeadInput>::read(&format!("spead+{text}")) else { return false };
    let Ok(url) = url::read::<PcapUrl>(&whole.inner) else { return false };
    // A look into a pipe takes out of it what is to be received, and waits for a writer.
    if !std::fs::metadata(&url.path).is_ok_and(|there| there.is_file()) {
        return false;
    }
    let Ok(file) = File::open(&url.path) else { return false };
    let Ok(mut datagrams) = Datagrams::open(BufReader::new(file), url.port) else { return false };
    for _ in 0..LOOKED_AT {
        match datagrams.next() {
            Ok(Some(datagram)) if SpeadPacket::parse(datagram.payload).is_ok() => return true,
            Ok(Some(datagram)) if datagram.payload.starts_with(NUMBERED) => return false,
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_named_pipe_keeps_what_is_to_be_received() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, regular) = (folder.path().join("pipe"), folder.path().join("file"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let capture =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/spead/missing_middle.pcap");
        let capture = std::fs::read(capture).unwrap();
        std::fs::write(&regular, &capture).unwrap();
        // Both ends, so that nobody waits for the other; a pipe holds 64 KiB.
        let mut both = File::options().read(true).write(true).open(&pipe).unwrap();
        let some = &capture[..capture.len().min(60_000)];
        both.write_all(some).unwrap();
        let urls = [&pipe, &regular].map(|path| format!("pcap:{}", path.display()));
        let looked_at = of_heaps(urls.to_vec());
        assert_eq!(looked_at, [urls[0].clone(), format!("spead+{}", urls[1])]);
        let mut left = vec![0; some.len()];
        both.read_exact(&mut left).unwrap();
        assert_eq!(left, some);
    }
}
