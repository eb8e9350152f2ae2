//! Several sockets on one port (SO_REUSEPORT), each sender always on the same one.
//!
//! The kernel's own choice would also keep a sender on one socket, but our filter program makes the choice predictable
//! and even: (source address + source port) modulo the number of sockets, so that neighbouring senders go to different
//! workers, and packets of one sender stay in order on one worker. With [`Steer::Address`] all ports of an address stay
//! together, for senders that spread one numbering over several source ports. With [`Steer::Spread`] each train goes to any of them, by
//! a random number of the kernel's: their buffers are then one. The receiver refuses groups and
//! broadcast, of which the kernel gives every socket a copy. Sources: `socket(7)` (SO_ATTACH_REUSEPORT_CBPF), kernel
//! `net/core/sock_reuseport.c`.

use std::net::{IpAddr, SocketAddr};

/// What keeps packets together on one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Steer {
    /// Address and port of the sender.
    #[default]
    Sender,
    /// Its address alone.
    Address,
    /// Nothing.
    Spread,
}

/// One instruction of a classic BPF program: code, jumps if true and false, operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassicInstruction {
    /// Operation.
    pub code: u16,
    /// Instructions to skip if the test holds.
    pub yes: u8,
    /// Instructions to skip if it does not.
    pub no: u8,
    /// Operand.
    pub k: u32,
}

// Operations of classic BPF (`linux/bpf_common.h`), put together once.
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF: u16 = 0x28;
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF_AT_X: u16 = 0x48;
const LOAD_CONSTANT: u16 = 0x00;
/// X = 4 × (low half of the byte): the length of an IPv4 header.
const X_HEADER_LENGTH: u16 = 0xb1;
const X_FROM_MEMORY: u16 = 0x61;
const STORE: u16 = 0x02;
const SHIFT_RIGHT: u16 = 0x74;
const ADD_X: u16 = 0x0c;
const MODULO: u16 = 0x94;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN_A: u16 = 0x16;
/// Offsets from here on count from the IP header (`SKF_NET_OFF`).
const IP: u32 = -0x10_0000_i32 as u32;
/// Where a word that is loaded is a random number (`SKF_AD_OFF + SKF_AD_RANDOM`).
const RANDOM: u32 = (-0x1000_i32 + 56) as u32;

/// Program that gives the number of the socket for a packet, 0..`workers`.
pub fn program(workers: u32, steer: Steer) -> Vec<ClassicInstruction> {
    let i = |code, k| ClassicInstruction { code, yes: 0, no: 0, k };
    if steer == Steer::Spread {
        return vec![i(LOAD_WORD, RANDOM), i(MODULO, workers.max(1)), i(RETURN_A, 0)];
    }
    // Sender: keep the port in memory 0; otherwise keep 0 there, with the same number of instructions.
    let by_port = steer == Steer::Sender;
    let port_v4 = match by_port {
        true => [i(X_HEADER_LENGTH, IP), i(LOAD_HALF_AT_X, IP)],
        false => [i(LOAD_CONSTANT, 0), i(LOAD_CONSTANT, 0)],
    };
    let port_v6 = match by_port {
        true => i(LOAD_HALF, IP.wrapping_add(40)),
        false => i(LOAD_CONSTANT, 0),
    };
    vec![
        i(LOAD_BYTE, IP),
        i(SHIFT_RIGHT, 4),
        ClassicInstruction { code: JUMP_IF_EQUAL, yes: 5, no: 0, k: 6 },
        port_v4[0],
        port_v4[1],
        i(STORE, 0),
        i(LOAD_WORD, IP.wrapping_add(12)),
        i(JUMP, 3),
        // IPv6: the port is after the fixed header, the address ends 24 bytes into it.
        port_v6,
        i(STORE, 0),
        i(LOAD_WORD, IP.wrapping_add(20)),
        i(X_FROM_MEMORY, 0),
        i(ADD_X, 0),
        i(MODULO, workers.max(1)),
        i(RETURN_A, 0),
    ]
}

/// Worker that a sender's packets go to: what [`program`] computes, unless packets are spread.
pub fn worker_of(sender: SocketAddr, workers: u32, steer: Steer) -> u32 {
    let address = match sender.ip() {
        IpAddr::V4(ip) => u32::from(ip),
        IpAddr::V6(ip) => u128::from(ip) as u32,
    };
    let port = match steer {
        Steer::Sender => u32::from(sender.port()),
        Steer::Address | Steer::Spread => 0,
    };
    address.wrapping_add(port) % workers.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Classic BPF as the kernel runs it on a packet that begins with its IP header.
    fn run(program: &[ClassicInstruction], packet: &[u8]) -> u32 {
        let (mut a, mut x, mut memory, mut pc) = (0u32, 0u32, [0u32; 16], 0usize);
        let at = |k: u32, n: usize| {
            let from = k.wrapping_sub(IP) as usize;
            packet[from..from + n].iter().fold(0u32, |v, b| v << 8 | u32::from(*b))
        };
        loop {
            let i = program[pc];
            pc += 1;
            match i.code {
                0x30 => a = at(i.k, 1),
                0x28 => a = at(i.k, 2),
                0x20 => a = at(i.k, 4),
                0x48 => a = at(i.k.wrapping_add(x), 2),
                0x00 => a = i.k,
                0xb1 => x = 4 * (at(i.k, 1) & 15),
                0x61 => x = memory[i.k as usize],
                0x02 => memory[i.k as usize] = a,
                0x74 => a >>= i.k,
                0x0c => a = a.wrapping_add(x),
                0x94 => a %= i.k,
                0x05 => pc += i.k as usize,
                0x15 => pc += usize::from(if a == i.k { i.yes } else { i.no }),
                0x16 => return a,
                other => panic!("operation {other:#x}"),
            }
        }
    }

    fn v4(source: [u8; 4], port: u16, options: usize) -> Vec<u8> {
        let mut p = vec![0u8; 20 + 4 * options];
        p[0] = 0x45 + options as u8;
        p[12..16].copy_from_slice(&source);
        p.extend(port.to_be_bytes());
        p.extend([0; 6]);
        p
    }

    fn v6(source: u128, port: u16) -> Vec<u8> {
        let mut p = vec![0u8; 40];
        p[0] = 0x60;
        p[8..24].copy_from_slice(&source.to_be_bytes());
        p.extend(port.to_be_bytes());
        p.extend([0; 6]);
        p
    }

    proptest::proptest! {
        #[test]
        fn program_and_function_agree(
            source: [u8; 4], wide: u128, port: u16, workers in 1u32..=64, options in 0usize..=10,
        ) {
            for steer in [Steer::Sender, Steer::Address] {
                let program = program(workers, steer);
                let sender = SocketAddr::from((source, port));
                let want = worker_of(sender, workers, steer);
                assert_eq!(run(&program, &v4(source, port, options)), want);
                let sender = SocketAddr::from((wide.to_be_bytes(), port));
                assert_eq!(run(&program, &v6(wide, port)), worker_of(sender, workers, steer));
            }
        }
    }

    #[test]
    fn neighbours_are_spread_and_ports_of_an_address_stay_together() {
        for n in 0..8u8 {
            let sender = SocketAddr::from(([10, 0, 0, n], 9000));
            assert_eq!(worker_of(sender, 4, Steer::Sender), u32::from(n) % 4);
            let by_address =
                |port| worker_of(SocketAddr::new(sender.ip(), port), 4, Steer::Address);
            assert_eq!(by_address(1), by_address(2));
        }
    }
}
