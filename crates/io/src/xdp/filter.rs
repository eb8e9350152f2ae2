//! The program that the kernel runs on each frame before it does anything else with it.
//!
//! UDP to our port goes to the socket of the receive queue; everything else goes on to the kernel unchanged. IPv4 with
//! options and IPv6 without extension headers, with up to two VLAN tags. Fragments cannot be distinguished by port
//! (only the first holds one), so they go on to the kernel and are counted, as is what other queues than ours received.
//! Each frame gets a verdict. Sources: RFC 791, 8200, 768, IEEE 802.1Q/ad, `linux/bpf.h`
//! (`struct xdp_md`, `enum xdp_action`).

use std::net::IpAddr;

use super::assemble::Instruction::*;
use super::assemble::Register::*;
use super::assemble::{Helper, Instruction, Label, Test, Width};

/// What the socket shall get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filter {
    /// UDP destination port, 1..=65535.
    pub port: u16,
    /// Destination address; `None`: any.
    pub address: Option<IpAddr>,
}

/// What the program counts: places in its map's one value, as 64-bit numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum FilterTally {
    /// Frames that were not for us and went on to the kernel.
    Passed,
    /// IP fragments of UDP datagrams, gone on to the kernel.
    Fragments,
    /// Datagrams for us on a receive queue that has no socket, gone on to the kernel.
    OtherQueue,
}

/// Counters of the program.
pub const TALLIES: usize = 3;

/// Verdict "goes on to the kernel".
pub const PASS: i32 = 2;
/// Verdict "was given to the socket", as the kernel's helper answers.
pub const REDIRECT: i32 = 4;

const FIRST_TAG: Label = 0;
const SECOND_TAG: Label = 1;
const IP: Label = 2;
const V4: Label = 3;
const V6: Label = 4;
const V6_FRAGMENT: Label = 5;
const UDP: Label = 6;
const FRAGMENT: Label = 7;
const OTHER: Label = 8;
const END: Label = 9;
/// Behind these, one label for each length of an IPv4 header, in words.
const HEADER: Label = 16;

const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];

/// A 16-bit field of the network, as a load of two bytes sees it.
fn net(value: u16) -> u32 {
    u32::from(u16::from_ne_bytes(value.to_be_bytes()))
}

/// The program. `sockets` and `tallies` are descriptors of its maps.
///
/// R6: context, R7: where we are, R8: end of the frame's first piece, R5: Ethernet type.
pub fn program(filter: &Filter, sockets: i32, tallies: i32) -> Vec<Instruction> {
    let mut p = vec![Move(R6, R1), Load(Width::Word, R7, R6, 0), Load(Width::Word, R8, R6, 4)];
    need(&mut p, 14);
    p.extend([Load(Width::Half, R5, R7, 12), AddNumber(R7, 14)]);
    p.extend(VLAN.map(|tag| JumpIf(Test::Equal, R5, net(tag), FIRST_TAG)));
    p.push(Jump(IP));
    p.push(Place(FIRST_TAG));
    need(&mut p, 4);
    p.extend([Load(Width::Half, R5, R7, 2), AddNumber(R7, 4)]);
    p.extend(VLAN.map(|tag| JumpIf(Test::Equal, R5, net(tag), SECOND_TAG)));
    p.push(Jump(IP));
    p.push(Place(SECOND_TAG));
    need(&mut p, 4);
    p.extend([Load(Width::Half, R5, R7, 2), AddNumber(R7, 4)]);

    p.push(Place(IP));
    // Without the other version's address there is nothing to look for in it.
    if !matches!(filter.address, Some(IpAddr::V6(_))) {
        p.push(JumpIf(Test::Equal, R5, net(0x0800), V4));
    }
    if !matches!(filter.address, Some(IpAddr::V4(_))) {
        p.push(JumpIf(Test::Equal, R5, net(0x86dd), V6));
    }
    p.push(Jump(OTHER));
    if !matches!(filter.address, Some(IpAddr::V6(_))) {
        ipv4(&mut p, filter);
    }
    if !matches!(filter.address, Some(IpAddr::V4(_))) {
        ipv6(&mut p, filter);
    }

    p.push(Place(UDP));
    need(&mut p, 8);
    p.extend([
        Load(Width::Half, R2, R7, 2),
        JumpIf(Test::NotEqual, R2, net(filter.port), OTHER),
        LoadMap(R1, sockets),
        Load(Width::Word, R2, R6, 16), // the receive queue's number
        Set(R3, PASS),                 // the answer where the queue has no socket
        Call(Helper::RedirectMap),
        JumpIf(Test::Equal, R0, REDIRECT as u32, END),
    ]);
    count(&mut p, tallies, FilterTally::OtherQueue);
    p.extend([Set(R0, PASS), Exit, Place(FRAGMENT)]);
    count(&mut p, tallies, FilterTally::Fragments);
    p.extend([Set(R0, PASS), Exit, Place(OTHER)]);
    count(&mut p, tallies, FilterTally::Passed);
    p.extend([Set(R0, PASS), Place(END), Exit]);
    p
}

/// Goes on only if `bytes` follow.
fn need(p: &mut Vec<Instruction>, bytes: i32) {
    p.extend([Move(R1, R7), AddNumber(R1, bytes), JumpIfRegister(Test::Greater, R1, R8, OTHER)]);
}

fn count(p: &mut Vec<Instruction>, tallies: i32, what: FilterTally) {
    // Receive queues are served on several cores, so the sum is made in one step.
    p.extend([LoadValue(R2, tallies, what as i32 * 8), Set(R1, 1), AtomicAdd(R2, 0, R1)]);
}

/// Compares the four bytes at `offset` with an address's.
fn same(p: &mut Vec<Instruction>, offset: i16, bytes: [u8; 4]) {
    p.extend([
        Load(Width::Word, R2, R7, offset),
        JumpIf(Test::NotEqual, R2, u32::from_ne_bytes(bytes), OTHER),
    ]);
}

fn ipv4(p: &mut Vec<Instruction>, filter: &Filter) {
    p.push(Place(V4));
    need(p, 20);
    p.extend([Load(Width::Byte, R2, R7, 9), JumpIf(Test::NotEqual, R2, 17, OTHER)]);
    if let Some(IpAddr::V4(address)) = filter.address {
        same(p, 16, address.octets());
    }
    p.extend([
        Load(Width::Byte, R2, R7, 0),
        Move(R3, R2),
        ShiftRight(R3, 4),
        JumpIf(Test::NotEqual, R3, 4, OTHER),
        // More fragments follow, or this is not the first.
        Load(Width::Half, R3, R7, 6),
        And(R3, net(0x3fff) as i32),
        JumpIf(Test::NotEqual, R3, 0, FRAGMENT),
        And(R2, 15),
    ]);
    // One branch for each length of the header: adding a number that is not in the program to a
    // pointer would need CAP_PERFMON besides CAP_BPF. The usual 20 bytes come first.
    p.extend((5..16).map(|words| JumpIf(Test::Equal, R2, words, HEADER + words as Label)));
    p.push(Jump(OTHER));
    for words in 5..16 {
        p.extend([Place(HEADER + words as Label), AddNumber(R7, words * 4), Jump(UDP)]);
    }
}

fn ipv6(p: &mut Vec<Instruction>, filter: &Filter) {
    p.push(Place(V6));
    need(p, 40);
    if let Some(IpAddr::V6(address)) = filter.address {
        for (i, word) in address.octets().chunks_exact(4).enumerate() {
            same(p, 24 + 4 * i as i16, [word[0], word[1], word[2], word[3]]);
        }
    }
    p.extend([
        Load(Width::Byte, R2, R7, 0),
        ShiftRight(R2, 4),
        JumpIf(Test::NotEqual, R2, 6, OTHER),
        Load(Width::Byte, R2, R7, 6),
        AddNumber(R7, 40),
        JumpIf(Test::Equal, R2, 17, UDP),
        JumpIf(Test::Equal, R2, 44, V6_FRAGMENT),
        Jump(OTHER),
        Place(V6_FRAGMENT),
    ]);
    need(p, 8);
    p.extend([Load(Width::Byte, R2, R7, 0), JumpIf(Test::Equal, R2, 17, FRAGMENT), Jump(OTHER)]);
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
