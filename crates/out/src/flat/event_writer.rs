//! Columns of an `EventBatch` laid into ev44 or ev42 with one copy and no work per event.
//!
//! The layout is fixed: root offset and identifier, vtable, table, source name, pulse vectors, event vectors; every
//! length is known before the first byte is written, so vectors have the right size and nothing moves. FlatBuffers'
//! own builder clears its memory again for each message, a second pass over all bytes.
//!
//! Refuses a message above 2³¹−1 bytes, which FlatBuffers' offsets cannot span.
//! Source: `docs/formats/flatbuffers.md` sections 1, 2.1 and 2.3.

use fullcount_core::products::EventBatch;

/// A message that FlatBuffers cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event message of {bytes} bytes: 2147483647 are the most, so send fewer events in one")]
pub struct TooLarge {
    /// What it would take.
    pub bytes: usize,
}

/// Where the vtable starts: behind root offset and identifier.
const VTABLE: usize = 8;
/// Most bytes of one buffer.
const LIMIT: usize = i32::MAX as usize;

/// Writes event messages into memory of its own, which it keeps.
#[derive(Debug, Default)]
pub struct EventWriter {
    memory: Vec<u8>,
}

impl EventWriter {
    /// A writer without memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The whole batch as one ev44 message. Its columns are the vectors: both are below 2³¹, so they read the same
    /// signed.
    ///
    /// # Errors
    /// If it is too large for a FlatBuffer.
    pub fn ev44(
        &mut self,
        source_name: &str,
        message_id: i64,
        events: &EventBatch,
    ) -> Result<&[u8], TooLarge> {
        self.ev44_columns(
            source_name,
            message_id,
            &events.pulse_ns,
            &events.pulse_first,
            &events.offset_ns,
            &events.pixel,
        )
    }

    /// As [`Self::ev44`], of any slices: pulses in ns since 1970, the position of each one's first event in what
    /// follows, then time after the pulse and pixel of each event.
    ///
    /// # Errors
    /// If it is too large for a FlatBuffer.
    pub fn ev44_columns(
        &mut self,
        source_name: &str,
        message_id: i64,
        pulse_ns: &[i64],
        pulse_first: &[u32],
        offset_ns: &[u32],
        pixel: &[u32],
    ) -> Result<&[u8], TooLarge> {
        let mut plan = Plan::new(6, 32);
        let name = plan.text(source_name);
        let times = plan.vector(8, pulse_ns.len());
        let firsts = plan.vector(4, pulse_first.len());
        let offsets = plan.vector(4, offset_ns.len());
        let pixels = plan.vector(4, pixel.len());
        let mut out = self.start(&plan, *b"ev44", [4, 8, 16, 20, 24, 28])?;
        out.number(plan.table + 8, message_id.to_le_bytes());
        out.refer(plan.table + 4, name);
        out.refer(plan.table + 16, times);
        out.refer(plan.table + 20, firsts);
        out.refer(plan.table + 24, offsets);
        out.refer(plan.table + 28, pixels);
        out.text(name, source_name);
        out.column(times, pulse_ns, i64::to_le_bytes);
        out.column(firsts, pulse_first, u32::to_le_bytes);
        out.column(offsets, offset_ns, u32::to_le_bytes);
        out.column(pixels, pixel, u32::to_le_bytes);
        Ok(&self.memory[..plan.end])
    }

    /// One pulse as an ev42 message: its time in ns since 1970, time after it and pixel of each event.
    ///
    /// # Errors
    /// If it is too large for a FlatBuffer.
    pub fn ev42(
        &mut self,
        source_name: &str,
        message_id: u64,
        pulse_ns: u64,
        offset_ns: &[u32],
        pixel: &[u32],
    ) -> Result<&[u8], TooLarge> {
        let mut plan = Plan::new(7, 32);
        let name = plan.text(source_name);
        let offsets = plan.vector(4, offset_ns.len());
        let pixels = plan.vector(4, pixel.len());
        // The union's two slots are there, and absent.
        let mut out = self.start(&plan, *b"ev42", [4, 8, 16, 24, 28, 0, 0])?;
        out.number(plan.table + 8, message_id.to_le_bytes());
        out.number(plan.table + 16, pulse_ns.to_le_bytes());
        out.refer(plan.table + 4, name);
        out.refer(plan.table + 24, offsets);
        out.refer(plan.table + 28, pixels);
        out.text(name, source_name);
        out.column(offsets, offset_ns, u32::to_le_bytes);
        out.column(pixels, pixel, u32::to_le_bytes);
        Ok(&self.memory[..plan.end])
    }

    /// Memory for the message, with everything in front of the first text or vector in it.
    fn start<const SLOTS: usize>(
        &mut self,
        plan: &Plan,
        identifier: [u8; 4],
        slots: [u16; SLOTS],
    ) -> Result<Bytes<'_>, TooLarge> {
        if plan.end > LIMIT {
            return Err(TooLarge { bytes: plan.end });
        }
        if self.memory.len() < plan.end {
            self.memory.resize(plan.end, 0);
        }
        let mut out = Bytes(&mut self.memory[..plan.end]);
        out.number(0, (plan.table as u32).to_le_bytes());
        out.number(4, identifier);
        out.number(VTABLE, (4 + 2 * SLOTS as u16).to_le_bytes());
        out.number(VTABLE + 2, plan.table_bytes.to_le_bytes());
        for (i, slot) in slots.into_iter().enumerate() {
            out.number(VTABLE + 4 + 2 * i, slot.to_le_bytes());
        }
        // The gap that brings the table to a multiple of 8, and the table, with its way back to the vtable.
        out.0[VTABLE + 4 + 2 * SLOTS..plan.front].fill(0);
        out.number(plan.table, ((plan.table - VTABLE) as i32).to_le_bytes());
        Ok(out)
    }
}

/// Where everything goes. Positions are from the start of the buffer, where alignment is counted.
struct Plan {
    table: usize,
    table_bytes: u16,
    /// End of the table.
    front: usize,
    end: usize,
}

impl Plan {
    fn new(slots: usize, table_bytes: u16) -> Self {
        let table = (VTABLE + 4 + 2 * slots).next_multiple_of(8);
        let front = table + usize::from(table_bytes);
        Self { table, table_bytes, front, end: front }
    }

    /// Length word, bytes, a zero; then up to a multiple of 4.
    fn text(&mut self, text: &str) -> Place {
        let at = self.end;
        self.end = (at + 4 + text.len() + 1).next_multiple_of(4);
        Place { from: at, at }
    }

    /// Length word right in front of values at a multiple of their size.
    fn vector(&mut self, size: usize, length: usize) -> Place {
        let from = self.end;
        let at = (from + 4).next_multiple_of(size) - 4;
        self.end = length.saturating_mul(size).saturating_add(at + 4);
        Place { from, at }
    }
}

/// Where a text or vector goes.
#[derive(Clone, Copy)]
struct Place {
    /// End of what is in front of it; from here to `at` is a gap.
    from: usize,
    /// Its length word.
    at: usize,
}

/// A message being written, into memory that holds an older one.
struct Bytes<'a>(&'a mut [u8]);

impl Bytes<'_> {
    fn number<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        self.0[at..at + N].copy_from_slice(&bytes);
    }

    /// An offset counts from where it stands.
    fn refer(&mut self, at: usize, target: Place) {
        self.number(at, ((target.at - at) as u32).to_le_bytes());
    }

    fn text(&mut self, place: Place, text: &str) {
        let (start, end) = (place.at + 4, place.at + 4 + text.len());
        self.number(place.at, (text.len() as u32).to_le_bytes());
        self.0[start..end].copy_from_slice(text.as_bytes());
        self.0[end..(end + 1).next_multiple_of(4)].fill(0);
    }

    fn column<T: Copy, const N: usize>(
        &mut self,
        place: Place,
        values: &[T],
        bytes: impl Fn(T) -> [u8; N],
    ) {
        self.0[place.from..place.at].fill(0);
        self.number(place.at, (values.len() as u32).to_le_bytes());
        let out = &mut self.0[place.at + 4..place.at + 4 + N * values.len()];
        for (out, value) in out.as_chunks_mut().0.iter_mut().zip(values) {
            *out = bytes(*value);
        }
    }
}
