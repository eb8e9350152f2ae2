//! A session without operating system: opens, is answered, submits, is acknowledged, aborts. Exit code 0: as it should be.
#![no_std]
#![no_main]

use core::arch::asm;
use fullcount_stcp::wire::{Inbound, TcpFlags};
use fullcount_stcp::{Borrowed, FragmentMark, StcpCounters, StcpSender, StcpSettings, StcpState};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    exit(101)
}

#[cfg(bare)]
fn exit(_: u64) -> ! {
    loop {
        // SAFETY: stops the processor until the next interrupt.
        unsafe { asm!("hlt") }
    }
}

#[cfg(not(bare))]
fn exit(code: u64) -> ! {
    // SAFETY: Linux' exit on this processor; it does not return.
    unsafe { asm!("syscall", in("rax") 60, in("rdi") code, options(noreturn)) }
}

/// Named by tables of this host's `core`, and never called: a panic ends the program.
#[cfg(not(bare))]
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// What a compiler calls for copies, where no library has it.
#[cfg(not(bare))]
mod memory {
    use core::arch::asm;

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
        // SAFETY: the caller gives n bytes at both.
        unsafe { asm!("rep movsb", inout("rcx") n => _, inout("rdi") to => _, inout("rsi") from => _) }
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
        if (to as usize).wrapping_sub(from as usize) >= n {
            // SAFETY: forwards, as the target does not begin inside the source.
            return unsafe { memcpy(to, from, n) };
        }
        // SAFETY: backwards from the last byte; the direction flag is put back.
        unsafe {
            asm!("std", "rep movsb", "cld", inout("rcx") n => _,
                inout("rdi") to.wrapping_add(n).wrapping_sub(1) => _,
                inout("rsi") from.wrapping_add(n).wrapping_sub(1) => _);
        }
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memset(to: *mut u8, value: i32, n: usize) -> *mut u8 {
        // SAFETY: the caller gives n bytes.
        unsafe { asm!("rep stosb", inout("rcx") n => _, inout("rdi") to => _, in("al") value as u8) }
        to
    }
}

#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    // SAFETY: the stack is as the loader leaves it, aligned for a jump and not for a call.
    unsafe { asm!("and rsp, -16", "call {}", sym session, options(noreturn)) }
}

extern "C" fn session() -> ! {
    let mut ring = [0u8; 16384];
    let mut marks = [FragmentMark::default(); 16];
    let mut counters = StcpCounters::default();
    let memory = Borrowed::new(&mut ring, &mut marks, &mut counters, None);
    let Ok(mut sender) = StcpSender::new(StcpSettings::daq(), memory) else { exit(1) };
    if sender.open(0, 5, true).is_err() || sender.poll(0, 0).is_none_or(|o| o.flags != TcpFlags::SYN) {
        exit(2);
    }
    let answer = Inbound {
        seq: 900,
        ack: 6,
        flags: TcpFlags::SYN.and(TcpFlags::ACK),
        window: 60_000,
        mss: Some(8960),
        scale: Some(0),
        length: 0,
    };
    sender.receive(1000, &answer);
    let mut una = 0;
    for round in 0..100u64 {
        let now = 2000 + round * 1_000_000;
        while sender.submit(now, &[round as u8; 2048]).is_ok() {}
        sender.flush();
        while let Some(o) = sender.poll(now, 0) {
            una = una.max(o.offset + u64::from(o.length));
        }
        let ack = Inbound { seq: 901, ack: 6 + una as u32, flags: TcpFlags::ACK, window: 60_000, ..answer };
        sender.receive(now + 500_000, &Inbound { mss: None, scale: None, ..ack });
    }
    if sender.snapshot().una < 100_000 {
        exit(3);
    }
    sender.abort(1);
    match (sender.state(), sender.poll(1, 0)) {
        (StcpState::Closed, Some(o)) if o.flags.has(TcpFlags::RST) => exit(0),
        _ => exit(4),
    }
}
