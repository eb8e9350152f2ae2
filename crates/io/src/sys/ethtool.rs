//! Rings, channels, offloads and driver of a network interface: read and set through `SIOCETHTOOL`.
//!
//! Every request is a run of 32-bit words that begins with its command; the kernel answers into the
//! same words. Off Linux each call answers "unsupported". Refuses: names longer than 15 bytes or with
//! a NUL (`InvalidInput`), and offloads that the interface does not have. Sources: `ethtool(8)`, kernel
//! `include/uapi/linux/ethtool.h`.

use std::io;

const GDRVINFO: u32 = 0x03;
const GRINGPARAM: u32 = 0x10;
const SRINGPARAM: u32 = 0x11;
const GSTRINGS: u32 = 0x1b;
const GSTATS: u32 = 0x1d;
const GSSET_INFO: u32 = 0x37;
const GFEATURES: u32 = 0x3a;
const SFEATURES: u32 = 0x3b;
const GCHANNELS: u32 = 0x3c;
/// `ETH_SS_STATS`: the set of the driver's own counters' names.
const STATISTIC_NAMES: u32 = 1;
/// Names and numbers for which there is room beyond those that the kernel counted: it writes as many as it
/// has by then. The largest sets known (128 queues) have some 10,000.
const SLACK: usize = 1 << 16;
/// `ETH_SS_FEATURES`: the set of the offloads' names.
const FEATURE_NAMES: u32 = 4;
/// `ETH_GSTRING_LEN` in words.
const NAME_WORDS: usize = 8;

/// Entries of the queues between card and driver, in packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rings {
    /// Receive ring now.
    pub rx: u32,
    /// Largest receive ring.
    pub rx_max: u32,
    /// Transmit ring now.
    pub tx: u32,
    /// Largest transmit ring.
    pub tx_max: u32,
}

/// Hardware queues of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CardQueues {
    /// Queues that receive: own ones and combined ones.
    pub rx: u32,
    /// Most of them.
    pub rx_max: u32,
}

/// One offload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Feature {
    /// The kernel's name, for example `rx-gro`.
    pub name: String,
    /// In use.
    pub on: bool,
    /// Cannot be changed.
    pub fixed: bool,
}

/// Sends the words of one request and reads the answer.
///
/// The caller gives as many words as the command's structure has, its tail included: the kernel writes
/// what the structure and the length fields in it say.
#[cfg(target_os = "linux")]
fn call(interface: &str, words: &mut [u32]) -> io::Result<u32> {
    use std::os::fd::AsRawFd;

    let name = interface.as_bytes();
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: `request` and `words` live and are exclusively borrowed across the call. Each caller below
    // hands over the whole structure of its command, and where the answer has a variable tail, as many
    // words as the kernel itself counted just before (the feature set is a constant of the kernel), with
    // SLACK more where a driver may have got more queues since.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc.unsigned_abs()) }
}

#[cfg(not(target_os = "linux"))]
fn call(_interface: &str, _words: &mut [u32]) -> io::Result<u32> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only on Linux"))
}

/// Text in words of this machine's order, up to the first NUL.
fn text(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Name of the driver, for example `mlx5_core` or `veth`.
///
/// # Errors
/// The system's: no such interface, or one without a driver that says its name.
pub fn driver(interface: &str) -> io::Result<String> {
    // struct ethtool_drvinfo: 196 B.
    let mut words = [0u32; 49];
    words[0] = GDRVINFO;
    call(interface, &mut words)?;
    Ok(text(&words[1..9]))
}

/// Rings now and at most.
///
/// # Errors
/// The system's: `Unsupported` where the interface has none (loopback, veth).
pub fn rings(interface: &str) -> io::Result<Rings> {
    let w = ring_words(interface)?;
    Ok(Rings { rx_max: w[1], tx_max: w[4], rx: w[5], tx: w[8] })
}

/// struct ethtool_ringparam: command, 4 largest, 4 present ones (rx, mini, jumbo, tx).
fn ring_words(interface: &str) -> io::Result<[u32; 9]> {
    let mut words = [0u32; 9];
    words[0] = GRINGPARAM;
    call(interface, &mut words)?;
    Ok(words)
}

/// Sets the rings that are given and leaves the others; most drivers restart the card for it.
///
/// # Errors
/// The system's: no right, above the largest, or not changeable.
pub fn set_rings(interface: &str, rx: Option<u32>, tx: Option<u32>) -> io::Result<()> {
    let mut words = ring_words(interface)?;
    words[0] = SRINGPARAM;
    words[5] = rx.unwrap_or(words[5]);
    words[8] = tx.unwrap_or(words[8]);
    call(interface, &mut words).map(|_| ())
}

/// Receiving hardware queues.
///
/// # Errors
/// The system's: `Unsupported` where the interface has none.
pub fn channels(interface: &str) -> io::Result<CardQueues> {
    // struct ethtool_channels: command, 4 largest (rx, tx, other, combined), 4 present ones.
    let mut w = [0u32; 9];
    w[0] = GCHANNELS;
    call(interface, &mut w)?;
    Ok(CardQueues { rx: w[5].saturating_add(w[8]), rx_max: w[1].saturating_add(w[4]) })
}

/// Names of all offloads that this kernel knows, in the order of their bits.
fn feature_names(interface: &str) -> io::Result<Vec<String>> {
    names(interface, FEATURE_NAMES, 0)
}

/// Names of a set, with room for `slack` more than the kernel counts.
fn names(interface: &str, set: u32, slack: usize) -> io::Result<Vec<String>> {
    // struct ethtool_sset_info: command, reserved, a 64-bit mask, one count.
    let mut info = [GSSET_INFO, 0, 0, 0, 0];
    let mask = (1u64 << set).to_ne_bytes();
    info[2] = u32::from_ne_bytes([mask[0], mask[1], mask[2], mask[3]]);
    info[3] = u32::from_ne_bytes([mask[4], mask[5], mask[6], mask[7]]);
    call(interface, &mut info)?;
    let count = info[4] as usize;
    // struct ethtool_gstrings: command, set, count, then 32 B a name.
    let mut words = vec![0u32; 3 + (count + slack) * NAME_WORDS];
    (words[0], words[1], words[2]) = (GSTRINGS, set, info[4]);
    call(interface, &mut words)?;
    let count = (words[2] as usize).min(count + slack);
    Ok(words[3..].chunks(NAME_WORDS).take(count).map(text).collect())
}

/// The driver's own counters, as `ethtool -S` prints them.
///
/// # Errors
/// The system's: `Unsupported` where the driver has none.
pub fn statistics(interface: &str) -> io::Result<Vec<(String, u64)>> {
    let names = names(interface, STATISTIC_NAMES, SLACK)?;
    // struct ethtool_stats: command, count, then 64 bits a counter.
    let mut words = vec![0u32; 2 + 2 * (names.len() + SLACK)];
    (words[0], words[1]) = (GSTATS, names.len() as u32);
    call(interface, &mut words)?;
    let number = |w: &[u32]| {
        let [a, b, c, d] = w[0].to_ne_bytes();
        let [e, f, g, h] = w[1].to_ne_bytes();
        u64::from_ne_bytes([a, b, c, d, e, f, g, h])
    };
    // Fewer or more by now: their order is still that of the names.
    let count = words[1] as usize;
    Ok(names.into_iter().zip(words[2..].chunks_exact(2).take(count).map(number)).collect())
}

/// All offloads, with the kernel's names.
///
/// # Errors
/// The system's, for example no such interface.
pub fn features(interface: &str) -> io::Result<Vec<Feature>> {
    let names = feature_names(interface)?;
    let blocks = names.len().div_ceil(32);
    // struct ethtool_gfeatures: command, blocks, then available, requested, active, never changed.
    let mut words = vec![0u32; 2 + 4 * blocks];
    (words[0], words[1]) = (GFEATURES, blocks as u32);
    call(interface, &mut words)?;
    let feature = |(bit, name): (usize, String)| {
        let block = 2 + 4 * (bit / 32);
        let has = |word: usize| words[block + word] >> (bit % 32) & 1 == 1;
        Feature { name, on: has(2), fixed: !has(0) || has(3) }
    };
    Ok(names.into_iter().enumerate().map(feature).filter(|f| !f.name.is_empty()).collect())
}

/// Switches one offload, by the kernel's name.
///
/// # Errors
/// `NotFound` if this kernel has no such offload, `Unsupported` if the interface did not take it, or the
/// system's.
pub fn set_feature(interface: &str, feature: &str, on: bool) -> io::Result<()> {
    let names = feature_names(interface)?;
    let absent = || io::Error::new(io::ErrorKind::NotFound, "this kernel has no such offload");
    let bit = names.iter().position(|n| n == feature).ok_or_else(absent)?;
    let blocks = names.len().div_ceil(32);
    // struct ethtool_sfeatures: command, blocks, then valid, requested.
    let mut words = vec![0u32; 2 + 2 * blocks];
    (words[0], words[1]) = (SFEATURES, blocks as u32);
    let block = 2 + 2 * (bit / 32);
    words[block] = 1 << (bit % 32);
    words[block + 1] = u32::from(on) << (bit % 32);
    // The answer's bits say what was not set: fixed (1), or requested but impossible now (2).
    match call(interface, &mut words)? & 3 {
        0 => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "the interface did not take it")),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_offloads_and_no_rings() {
        let features = features("lo").unwrap();
        let checksum = features.iter().find(|f| f.name == "rx-checksum").unwrap();
        assert!(checksum.on && checksum.fixed, "the kernel's drivers/net/loopback.c says so");
        let gro = features.iter().find(|f| f.name == "rx-gro").unwrap();
        assert!(!gro.fixed);
        assert!(rings("lo").is_err() && channels("lo").is_err());
        assert!(statistics("lo").is_err(), "loopback counts nothing of its own");
    }

    #[test]
    fn nonsense_is_refused_before_the_kernel_sees_it() {
        for name in ["", "an-interface-with-a-long-name", "a\0b"] {
            assert_eq!(rings(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
        }
        assert!(driver("no-such-if").is_err());
        let told = set_feature("lo", "no-such-offload", true).unwrap_err();
        assert_eq!(told.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn text_ends_at_the_first_nul() {
        let word = |b: &[u8; 4]| u32::from_ne_bytes(*b);
        assert_eq!(text(&[word(b"veth"), word(b"0\0xx")]), "veth0");
        assert_eq!(text(&[word(b"full")]), "full");
        assert_eq!(text(&[]), "");
    }
}
