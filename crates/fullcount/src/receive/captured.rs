//! `pcap:FILE` of `receive`: a capture of SPEAD packets is one of heaps, all others are of numbered packets.
//!
//! The first packet that is one of the two decides. Refuses nothing: what cannot be read is refused where it is opened.

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
