//! Blocks built field by field after the manual pages, not by the parser's own constants.

use proptest::prelude::*;

use super::{HEAD, message, refusal};

/// A block as `io_uring_prep_recvmsg_multishot(3)` draws it: head, name, control, payload.
fn block(name: &[u8], control: &[u8], payload: &[u8], flags: u32) -> Vec<u8> {
    let mut b = Vec::new();
    for n in [name.len() as u32, control.len() as u32, payload.len() as u32, flags] {
        b.extend(n.to_ne_bytes());
    }
    b.extend(name);
    b.resize(16 + 32, 0);
    b.extend(control);
    b.resize(16 + 32 + 144, 0);
    b.extend(payload);
    b
}

/// One control message on a 64-bit system: length with its head, level, kind, data, padding to 8 B.
fn control(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
    let mut c = (16 + data.len() as u64).to_ne_bytes().to_vec();
    c.extend(level.to_ne_bytes());
    c.extend(kind.to_ne_bytes());
    c.extend(data);
    c.resize(c.len().next_multiple_of(8), 0);
    c
}

/// 192.0.2.7:9000 as `sockaddr_in`.
fn v4() -> Vec<u8> {
    let mut name = 2u16.to_ne_bytes().to_vec();
    name.extend(9000u16.to_be_bytes());
    name.extend([192, 0, 2, 7]);
    name.resize(16, 0);
    name
}

#[test]
fn a_train_with_all_control_messages_is_read() {
    let mut c = control(1, 35, &[5i64.to_ne_bytes(), 7i64.to_ne_bytes()].concat());
    c.extend(control(1, 40, &9u32.to_ne_bytes()));
    c.extend(control(1, 999, b"unknown"));
    c.extend(control(17, 104, &100i32.to_ne_bytes()));
    let m = message(&block(&v4(), &c, &[1; 250], 0)).unwrap();
    assert_eq!(
        (m.len, m.stride, m.drops, m.time_ns),
        (250, Some(100), Some(9), Some(5_000_000_007))
    );
    assert_eq!((m.truncated, m.control_lost), (false, false));
    assert_eq!(m.origin.to_string(), "192.0.2.7:9000");
    assert_eq!(HEAD, 192);
}

#[test]
fn an_ipv6_sender_and_no_sender_are_read() {
    let mut name = 10u16.to_ne_bytes().to_vec();
    name.extend(7u16.to_be_bytes());
    name.extend([0; 4]);
    name.extend("2001:db8::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
    name.extend([0; 4]);
    let m = message(&block(&name, &[], b"x", 0)).unwrap();
    assert_eq!((m.origin.to_string().as_str(), m.origin.is_ipv6()), ("[2001:db8::1]:7", true));
    let m = message(&block(&[], &[], b"", 0)).unwrap();
    assert_eq!((m.origin, m.len, m.stride), (fullcount_core::batch::Origin::NONE, 0, None));
}

#[test]
fn a_cut_train_keeps_its_true_length_and_lost_control_is_told() {
    let mut b = block(&v4(), &[], &[0; 1000], 0x20 | 0x8);
    b.truncate(HEAD + 100);
    let m = message(&b).unwrap();
    assert_eq!((m.len, m.truncated, m.control_lost), (1000, true, true));
    // The same length without the flag contradicts itself.
    b[12..16].fill(0);
    assert_eq!(message(&b), None);
}

#[test]
fn each_refusal_says_what_to_do() {
    for (errno, switch, part) in [
        (libc::EPERM, Some("2\n"), "sysctl -w kernel.io_uring_disabled=0"),
        (libc::EPERM, Some("1\n"), "kernel.io_uring_group"),
        (libc::EPERM, Some("0\n"), "seccomp"),
        (libc::EACCES, None, "seccomp"),
        (libc::ENOSYS, None, "no io_uring"),
        (libc::EINVAL, Some("0"), "Linux 6.1"),
        (libc::ENOMEM, Some("0"), "ulimit -l"),
        (libc::EMFILE, None, "Too many open files"),
    ] {
        let told = refusal(errno, switch);
        assert!(told.contains(part), "{errno} {switch:?}: {told}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_or_look_past_the_block(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Some(m) = message(&bytes) {
            prop_assert!(m.truncated || HEAD + m.len <= bytes.len());
        }
    }

    #[test]
    fn damaged_control_is_survived(
        at in 48usize..192, byte in any::<u8>(), controls in 0u32..400, payload in 0usize..50,
    ) {
        let mut c = control(1, 40, &9u32.to_ne_bytes());
        c.extend(control(17, 104, &100i32.to_ne_bytes()));
        let mut b = block(&v4(), &c, &vec![3; payload], 0);
        b[4..8].copy_from_slice(&controls.to_ne_bytes());
        b[at] = byte;
        if let Some(m) = message(&b) {
            prop_assert_eq!(m.len, payload);
        }
    }
}
