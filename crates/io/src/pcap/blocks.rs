//! Fields of a capture in its byte order, and the blocks of pcapng that describe interfaces and hold frames.
//!
//! Refuses blocks that are shorter than their announced length. Source: draft-ietf-opsawg-pcapng.

use super::read::{Found, LONGEST_FRAME};

/// Byte order of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Big,
    Little,
}

impl Order {
    pub fn u16(self, b: [u8; 2]) -> u16 {
        match self {
            Order::Big => u16::from_be_bytes(b),
            Order::Little => u16::from_le_bytes(b),
        }
    }

    pub fn u32(self, b: [u8; 4]) -> u32 {
        match self {
            Order::Big => u32::from_be_bytes(b),
            Order::Little => u32::from_le_bytes(b),
        }
    }

    fn u64(self, b: [u8; 8]) -> u64 {
        match self {
            Order::Big => u64::from_be_bytes(b),
            Order::Little => u64::from_le_bytes(b),
        }
    }
}

/// Reads fields in the file's byte order out of a block.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    pub rest: &'a [u8],
    pub order: Order,
}

impl<'a> Fields<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(n)?;
        self.rest = tail;
        Some(head)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(|b| self.order.u16(b))
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(|b| self.order.u32(b))
    }
}

/// Unit of an interface's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resolution {
    /// 10⁻ⁿ s.
    Decimal(u8),
    /// 2⁻ⁿ s.
    Binary(u8),
}

impl Resolution {
    /// Nanoseconds of `ticks`, rounded down.
    fn to_nanos(self, ticks: u64) -> i128 {
        let ns = u128::from(ticks) * 1_000_000_000;
        let ns = match self {
            // 10³⁸ still fits; beyond, 2⁶⁴ ticks are less than a nanosecond.
            Resolution::Decimal(n) => 10u128.checked_pow(n.into()).map_or(0, |d| ns / d),
            Resolution::Binary(n) => ns.checked_shr(n.into()).unwrap_or(0),
        };
        // At most 2⁶⁴ × 10⁹ < 2⁹⁴.
        ns as i128
    }
}

/// What the file says of an interface.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interface {
    link: u16,
    snap: u32,
    resolution: Resolution,
    offset_s: i64,
}

impl Interface {
    fn time(&self, ticks: u64) -> i64 {
        clamp(self.resolution.to_nanos(ticks) + i128::from(self.offset_s) * 1_000_000_000)
    }
}

fn clamp(ns: i128) -> i64 {
    ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// A packet block without a frame.
pub(super) enum NoFrame {
    /// Its interface was not described: the link type is unknown.
    Undeclared,
    /// Its lengths make no sense.
    Damaged,
}

/// Interface description block.
pub(super) fn interface(mut f: Fields<'_>) -> Option<Interface> {
    let link = f.u16()?;
    f.u16()?;
    let snap = f.u32()?;
    let mut interface = Interface { link, snap, resolution: Resolution::Decimal(6), offset_s: 0 };
    // Options that end early or reach over the block say nothing.
    while let (Some(code), Some(len)) = (f.u16(), f.u16()) {
        let Some(value) = f.take(usize::from(len)) else { break };
        f.take((4 - usize::from(len) % 4) % 4);
        match (code, value) {
            (0, _) => break,
            (9, &[n]) if n & 0x80 == 0 => interface.resolution = Resolution::Decimal(n),
            (9, &[n]) => interface.resolution = Resolution::Binary(n & 0x7f),
            (14, value) => {
                if let Ok(b) = value.try_into() {
                    interface.offset_s = f.order.u64(b) as i64;
                }
            }
            _ => {}
        }
    }
    Some(interface)
}

/// Time, lengths and data, common to the enhanced and the obsolete packet block. `from` counts
/// from the start of the block.
fn timed(mut f: Fields<'_>, interface: u32, interfaces: &[Interface]) -> Result<Found, NoFrame> {
    let (Some(high), Some(low), Some(len), Some(original)) = (f.u32(), f.u32(), f.u32(), f.u32())
    else {
        return Err(NoFrame::Damaged);
    };
    let len = len as usize;
    if len > f.rest.len() || len > LONGEST_FRAME {
        return Err(NoFrame::Damaged);
    }
    let Some(i) = interfaces.get(interface as usize) else { return Err(NoFrame::Undeclared) };
    let ticks = u64::from(high) << 32 | u64::from(low);
    Ok(Found {
        link: i.link,
        interface,
        time_ns: Some(i.time(ticks)),
        from: 28,
        len,
        original: u64::from(original),
        size: 0,
    })
}

/// Enhanced packet block.
pub(super) fn enhanced(mut f: Fields<'_>, interfaces: &[Interface]) -> Result<Found, NoFrame> {
    let interface = f.u32().ok_or(NoFrame::Damaged)?;
    timed(f, interface, interfaces)
}

/// Obsolete packet block: 16 bits of interface, 16 bits of drop count.
pub(super) fn obsolete(mut f: Fields<'_>, interfaces: &[Interface]) -> Result<Found, NoFrame> {
    let (Some(interface), Some(_drops)) = (f.u16(), f.u16()) else { return Err(NoFrame::Damaged) };
    timed(f, interface.into(), interfaces)
}

/// Simple packet block: interface 0, no time, length cut by its snap length.
pub(super) fn simple(mut f: Fields<'_>, interfaces: &[Interface]) -> Result<Found, NoFrame> {
    let original = f.u32().ok_or(NoFrame::Damaged)?;
    let Some(i) = interfaces.first() else { return Err(NoFrame::Undeclared) };
    let snap = if i.snap == 0 { u32::MAX } else { i.snap };
    let len = original.min(snap) as usize;
    if len > f.rest.len() || len > LONGEST_FRAME {
        return Err(NoFrame::Damaged);
    }
    let original = u64::from(original);
    Ok(Found { link: i.link, interface: 0, time_ns: None, from: 12, len, original, size: 0 })
}
