//! Asking the kernel for lists over rtnetlink: one request, all answers.
//!
//! An answer is for the calling thread's network namespace, while files of `/sys` are for the namespace that mounted
//! them. Refuses answers that end early or do not come within a second. Sources: `netlink(7)`, `rtnetlink(7)`.

use std::io;

use fullcount_core::bytes::Bytes;

/// One answer: its type and its bytes after the message header.
pub(super) type Answer = (u16, Vec<u8>);

/// Asks for the list of `kind` (`RTM_GET…`); `body` is the fixed part of that request.
///
/// # Errors
/// The system's error; always `Unsupported` elsewhere than on Linux.
pub(super) fn list(kind: u16, body: &[u8]) -> io::Result<Vec<Answer>> {
    ask(kind, DUMP, body)
}

/// Has something done.
///
/// # Errors
/// As above.
pub(super) fn order(kind: u16, body: &[u8]) -> io::Result<()> {
    ask(kind, ACK, body).map(drop)
}

/// Flags of a request beside `NLM_F_REQUEST`: for all there are, and for a word when it is done (`linux/netlink.h`).
const DUMP: u16 = 0x300;
const ACK: u16 = 4;

#[cfg(target_os = "linux")]
fn ask(kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<Answer>> {
    use std::io::Read;
    use std::time::Duration;

    use socket2::{Domain, Protocol, Socket, Type};

    let domain = Domain::from(libc::AF_NETLINK);
    let protocol = Protocol::from(libc::NETLINK_ROUTE);
    let mut socket = Socket::new(domain, Type::RAW, Some(protocol))?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    let flags = libc::NLM_F_REQUEST as u16 | flags;
    let len = u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX);
    let mut request = len.to_ne_bytes().to_vec();
    request.extend(kind.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    request.extend([0; 8]); // sequence number and port: there is one request a socket
    request.extend(body);
    socket.send(&request)?;
    let mut all = Vec::new();
    // The kernel fills what the reader offers, up to 32 KiB a part.
    let mut part = vec![0; 64 << 10];
    loop {
        let n = socket.read(&mut part)?;
        if n == 0 || take(&part[..n], &mut all)? {
            return Ok(all);
        }
    }
}

/// Not here.
///
/// # Errors
/// Always `Unsupported`.
#[cfg(not(target_os = "linux"))]
fn ask(_kind: u16, _flags: u16, _body: &[u8]) -> io::Result<Vec<Answer>> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only on Linux"))
}

/// Bytes of a message header: length, type, flags, sequence number, port.
const HEADER: usize = 16;
/// Types of the last message and of an error (`linux/netlink.h`).
const DONE: u16 = 3;
const ERROR: u16 = 2;

/// Takes one part apart; true if it was the last.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn take(part: &[u8], all: &mut Vec<Answer>) -> io::Result<bool> {
    let mut b = Bytes::new(part);
    while !b.rest().is_empty() {
        let cut = || io::Error::new(io::ErrorKind::InvalidData, "a netlink message is cut short");
        let len = ne32(&mut b).ok_or_else(cut)? as usize;
        let kind = ne16(&mut b).ok_or_else(cut)?;
        b.take(10).ok_or_else(cut)?;
        let body = b.take(len.checked_sub(HEADER).ok_or_else(cut)?).ok_or_else(cut)?;
        // Messages begin at multiples of 4; the last one need not be filled up.
        let _ = b.take(len.next_multiple_of(4) - len);
        match kind {
            DONE => return Ok(true),
            ERROR => {
                // 0: what was ordered is done.
                let code = ne32(&mut Bytes::new(body)).ok_or_else(cut)? as i32;
                if code == 0 {
                    return Ok(true);
                }
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
            _ => all.push((kind, body.to_vec())),
        }
    }
    Ok(false)
}

/// Next two bytes in the host's order.
pub(super) fn ne16(b: &mut Bytes<'_>) -> Option<u16> {
    b.array::<2>().map(u16::from_ne_bytes)
}

/// Next four bytes in the host's order.
pub(super) fn ne32(b: &mut Bytes<'_>) -> Option<u32> {
    b.array::<4>().map(u32::from_ne_bytes)
}

/// Attributes of a message or of a nested attribute: type and bytes. Ends at the first that is cut.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut b = Bytes::new(bytes);
    std::iter::from_fn(move || {
        let len = usize::from(ne16(&mut b)?);
        // The two highest bits say "nested" and "in network order".
        let kind = ne16(&mut b)? & 0x3fff;
        let value = b.take(len.checked_sub(4)?)?;
        let _ = b.take(len.next_multiple_of(4) - len);
        Some((kind, value))
    })
}

/// Text of an attribute, without its end mark.
pub(super) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&c| c == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// An attribute that is one number of 32 bits.
pub(super) fn number(value: &[u8]) -> u32 {
    ne32(&mut Bytes::new(value)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut m = (16 + body.len() as u32).to_ne_bytes().to_vec();
        m.extend(kind.to_ne_bytes());
        m.extend([0; 10]);
        m.extend(body);
        m.resize(m.len().next_multiple_of(4), 0);
        m
    }

    #[test]
    fn a_part_is_taken_apart_and_the_last_message_ends_it() {
        let mut all = Vec::new();
        let part = [message(16, b"abc"), message(16, b"defg")].concat();
        assert!(!take(&part, &mut all).unwrap());
        assert!(take(&message(DONE, &[0; 4]), &mut all).unwrap());
        assert_eq!(all, [(16, b"abc".to_vec()), (16, b"defg".to_vec())]);
    }

    #[test]
    fn an_error_is_the_systems_and_a_cut_message_is_refused() {
        let told = take(&message(ERROR, &(-1i32).to_ne_bytes()), &mut Vec::new()).unwrap_err();
        assert_eq!(told.raw_os_error(), Some(1));
        assert!(take(&message(ERROR, &[0; 20]), &mut Vec::new()).unwrap(), "done");
        let mut whole = message(16, b"abcd");
        whole.pop();
        let told = take(&whole, &mut Vec::new()).unwrap_err();
        assert_eq!(told.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn nested_attributes_lose_their_marks() {
        let mut a = 7u16.to_ne_bytes().to_vec();
        a.extend((0x8000u16 | 5).to_ne_bytes());
        a.extend(b"lo\0\0");
        let one: Vec<_> = attributes(&a).collect();
        assert_eq!(one, [(5, &b"lo\0"[..])]);
        assert_eq!(text(one[0].1), "lo");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut all = Vec::new();
            let _ = take(&bytes, &mut all);
            let len: usize = all.iter().map(|(_, b)| b.len() + HEADER).sum();
            prop_assert!(len <= bytes.len());
            let len: usize = attributes(&bytes).map(|(_, v)| v.len() + 4).sum();
            prop_assert!(len <= bytes.len());
        }
    }
}
