//! What the kernel forbids, and what lending the slots guarantees.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::UringRing;
use crate::udp::uring::HEAD;

/// A ring, or `None` and a line that says why; with CI=true a failure instead.
fn ring(slots: usize) -> Option<UringRing> {
    match UringRing::new(slots) {
        Ok(ring) => Some(ring),
        Err(told) => {
            assert!(std::env::var_os("CI").is_none_or(|v| v != "true"), "{told}");
            println!("skipped: {told}");
            None
        }
    }
}

fn pair() -> (Socket, Socket) {
    let to = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
    to.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    let from = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
    from.connect(&to.local_addr().unwrap()).unwrap();
    (from, to)
}

/// Makes `io_uring_setup` fail with EPERM for the calling thread, as containers' filters do.
fn forbid_io_uring() {
    const ALLOW: u32 = 0x7FFF_0000;
    const ERRNO: u32 = 0x0005_0000;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = [
        // The system call's number is the first word of what the filter sees.
        step((libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, 0, 0, 0),
        step(
            (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
            0,
            1,
            libc::SYS_io_uring_setup as u32,
        ),
        step((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, ERRNO | libc::EPERM as u32),
        step((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the program, alive across the call; it binds this thread only.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER as libc::c_ulong;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

#[test]
fn a_filter_that_forbids_io_uring_is_told_with_what_to_do() {
    let told = std::thread::spawn(|| {
        forbid_io_uring();
        UringRing::new(4).unwrap_err()
    });
    let told = told.join().unwrap();
    assert_eq!(told.kind(), io::ErrorKind::PermissionDenied);
    // On a host whose sysctl forbids it as well, that is named first.
    let text = told.to_string();
    assert!(text.contains("seccomp") || text.contains("io_uring_disabled"), "{text}");
}

#[test]
fn memory_that_holds_no_slot_is_refused() {
    let Some(mut ring) = ring(4) else { return };
    let (_, to) = pair();
    for (len, pitch, slot) in [(63, 64, 64), (4096, HEAD + 63, 64), (0, 0, 0)] {
        let mut memory = vec![0; len];
        let told = ring.receive(to.as_fd(), &mut memory, (pitch, slot), Duration::ZERO);
        assert_eq!(told.unwrap_err().kind(), io::ErrorKind::InvalidInput, "{len} {pitch} {slot}");
    }
    assert_eq!((ring.message(0), ring.calls), (None, 0));
}

#[test]
fn between_calls_nothing_is_written_to_memory_that_was_lent() {
    let Some(mut ring) = ring(4) else { return };
    let (from, to) = pair();
    let place = (HEAD + 64, 64);
    let mut memory = vec![0xEE; 4 * place.0];
    let wait = Duration::from_secs(60);
    for round in 0..50u8 {
        from.send(&[round; 64]).unwrap();
        assert_eq!(ring.receive(to.as_fd(), &mut memory, place, wait).unwrap(), 1);
        let (start, told) = ring.message(0).unwrap();
        assert_eq!(memory[start..start + told.len], [round; 64]);
        // The request is armed, slots were left over, and packets come: none may be filled.
        memory.fill(0xEE);
        for _ in 0..3 {
            from.send(&[round; 64]).unwrap();
        }
        assert!(memory.iter().all(|b| *b == 0xEE), "round {round}");
        // They come in the next call, to the memory that it lends; here only two slots.
        let mut other = vec![0; 2 * place.0];
        let mut got = 0;
        while got < 3 {
            got += ring.receive(to.as_fd(), &mut other, place, wait).unwrap();
        }
        assert_eq!(got, 3);
        assert!(memory.iter().all(|b| *b == 0xEE), "round {round}");
    }
    assert!(ring.exhausted > 0 && ring.completions_lost == 0);
}

#[test]
fn polling_does_not_enter_the_kernel_while_nothing_comes() {
    let Some(mut ring) = ring(4) else { return };
    let (from, to) = pair();
    let place = (HEAD + 64, 64);
    let mut memory = vec![0; 4 * place.0];
    for _ in 0..1000 {
        let told = ring.receive(to.as_fd(), &mut memory, place, Duration::ZERO).unwrap_err();
        assert_eq!(told.kind(), io::ErrorKind::WouldBlock);
    }
    assert_eq!(ring.calls, 1, "the one that armed the request");
    from.send(b"x").unwrap();
    assert_eq!(ring.receive(to.as_fd(), &mut memory, place, Duration::ZERO).unwrap(), 1);
    assert_eq!(ring.calls, 2);
}
