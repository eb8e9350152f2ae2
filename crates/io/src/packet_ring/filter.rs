//! The classic packet filter of a packet socket: UDP to one port, over IPv4 with options and IPv6
//! without extension headers, with up to one VLAN tag (the kernel has removed the outer one).
//!
//! Fragments are let through with their headers only, to be counted. Each frame
//! gets a verdict. Sources: `linux/filter.h`, kernel `networking/filter.rst`.

use std::net::IpAddr;

use crate::sys::interface::ClassicWord;

/// Whole frames: more than any is long.
const WHOLE: u32 = 0x0004_0000;
/// Ethernet header, a tag, IP header with options and the fragment header fit.
const HEADERS: u32 = 128;

const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
/// A = 2 bytes at X + k.
const LOAD_HALF_X: u16 = 0x48;
/// X = 4 × (byte at k & 15): the length of an IPv4 header.
const HEADER_X: u16 = 0xb1;
const EQUAL: u16 = 0x15;
const ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

/// Where a comparison leads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Next,
    /// Over this many instructions.
    Over(u8),
    Whole,
    Fragment,
    Nothing,
    /// The part for frames with a tag, IPv4 or IPv6.
    Part(usize),
}

type Line = (u16, To, To, u32);

/// Parts in their order in the program.
const V4: usize = 1;
const V6: usize = 2;
const TAGGED: usize = 3;
const TAGGED_V4: usize = 4;
const TAGGED_V6: usize = 5;

/// The program for `port` at `address`, or any address.
pub fn program(port: u16, address: Option<IpAddr>) -> Vec<ClassicWord> {
    use To::*;
    let load = |code, k| (code, Next, Next, k);
    let types = |at: u32, v4: usize, v6: usize, other: To| {
        vec![load(LOAD_HALF, at), (EQUAL, Part(v4), Next, 0x0800), (EQUAL, Part(v6), other, 0x86dd)]
    };
    let mut first = types(12, V4, V6, Next);
    for tag in [0x8100, 0x88a8] {
        first.push((EQUAL, Part(TAGGED), Next, tag));
    }
    first.push((EQUAL, Part(TAGGED), Nothing, 0x9100));
    let parts = [
        first,
        ipv4(14, port, address),
        ipv6(14, port, address),
        types(16, TAGGED_V4, TAGGED_V6, Nothing),
        ipv4(18, port, address),
        ipv6(18, port, address),
    ];
    let mut starts = Vec::new();
    let mut length = 0;
    for part in &parts {
        starts.push(length);
        length += part.len();
    }
    let (whole, fragment, nothing) = (length, length + 1, length + 2);
    let lines = parts.iter().flatten().enumerate();
    let mut words: Vec<ClassicWord> = lines
        .map(|(at, &(code, yes, no, k))| {
            let jump = |to: To| {
                let place = match to {
                    Next => at + 1,
                    Over(n) => at + 1 + usize::from(n),
                    Whole => whole,
                    Fragment => fragment,
                    Nothing => nothing,
                    Part(part) => starts[part],
                };
                // All in all below 100 instructions, so 8 bits reach.
                (place - at - 1) as u8
            };
            (code, jump(yes), jump(no), k)
        })
        .collect();
    words.extend([WHOLE, HEADERS, 0].map(|k| (RETURN, 0, 0, k)));
    words
}

fn ipv4(at: u32, port: u16, address: Option<IpAddr>) -> Vec<Line> {
    use To::*;
    let mut p = vec![(LOAD_BYTE, Next, Next, at + 9), (EQUAL, Next, Nothing, 17)];
    match address {
        Some(IpAddr::V4(a)) => {
            p.push((LOAD_WORD, Next, Next, at + 16));
            p.push((EQUAL, Next, Nothing, u32::from(a)));
        }
        Some(IpAddr::V6(_)) => p.push((EQUAL, Nothing, Nothing, 0)),
        None => {}
    }
    p.extend([
        (LOAD_HALF, Next, Next, at + 6),
        (ANY_BIT, Fragment, Next, 0x3fff),
        (HEADER_X, Next, Next, at),
        (LOAD_HALF_X, Next, Next, at + 2),
        (EQUAL, Whole, Nothing, u32::from(port)),
    ]);
    p
}

fn ipv6(at: u32, port: u16, address: Option<IpAddr>) -> Vec<Line> {
    use To::*;
    let mut p = Vec::new();
    match address {
        Some(IpAddr::V6(a)) => {
            for (i, w) in a.octets().chunks_exact(4).enumerate() {
                p.push((LOAD_WORD, Next, Next, at + 24 + 4 * i as u32));
                p.push((EQUAL, Next, Nothing, u32::from_be_bytes([w[0], w[1], w[2], w[3]])));
            }
        }
        Some(IpAddr::V4(_)) => p.push((EQUAL, Nothing, Nothing, 0)),
        None => {}
    }
    p.extend([
        (LOAD_BYTE, Next, Next, at + 6),
        (EQUAL, Over(3), Next, 17),
        (EQUAL, Next, Nothing, 44),
        (LOAD_BYTE, Next, Next, at + 40),
        (EQUAL, Fragment, Nothing, 17),
        (LOAD_HALF, Next, Next, at + 42),
        (EQUAL, Whole, Nothing, u32::from(port)),
    ]);
    p
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
