//! Writes columns of an `EventBatch` as ev44 or ev42 with one copy and no work per event.
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

/// Where the vtable starts: after root offset and identifier.
const VTABLE: usize = 8;
/// Bytes of the table, of either schema.
const TABLE: usize = 32;
/// Most bytes of one buffer.
const LIMIT: usize = i32::MAX as usize;

/// Writes event messages into its own memory, which it reuses.
///
/// The front of a message (root, vtable, table, source name) is the same for all messages of a schema and a source: it
/// is written once and kept.
#[derive(Debug, Default)]
pub struct EventWriter {
    memory: Vec<u8>,
    /// What the front of the memory was written for.
    identifier: [u8; 4],
    source_name: String,
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
        let mut plan = Plan::new(6);
        let name = plan.text(source_name);
        let times = plan.vector(8, pulse_ns.len());
        let firsts = plan.vector(4, pulse_first.len());
        let offsets = plan.vector(4, offset_ns.len());
        let pixels = plan.vector(4, pixel.len());
        let (table, mut rest) =
            self.start(&plan, *b"ev44", [4, 8, 16, 20, 24, 28], name, source_name)?;
        put(table, 8, message_id.to_le_bytes());
        refer(table, 16, &plan, times);
        refer(table, 20, &plan, firsts);
        refer(table, 24, &plan, offsets);
        refer(table, 28, &plan, pixels);
        rest.column(times, pulse_ns, i64::to_le_bytes);
        rest.column(firsts, pulse_first, u32::to_le_bytes);
        rest.column(offsets, offset_ns, u32::to_le_bytes);
        rest.column(pixels, pixel, u32::to_le_bytes);
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
        let mut plan = Plan::new(7);
        let name = plan.text(source_name);
        let offsets = plan.vector(4, offset_ns.len());
        let pixels = plan.vector(4, pixel.len());
        // The union's two slots are there, and absent.
        let (table, mut rest) =
            self.start(&plan, *b"ev42", [4, 8, 16, 24, 28, 0, 0], name, source_name)?;
        put(table, 8, message_id.to_le_bytes());
        put(table, 16, pulse_ns.to_le_bytes());
        refer(table, 24, &plan, offsets);
        refer(table, 28, &plan, pixels);
        rest.column(offsets, offset_ns, u32::to_le_bytes);
        rest.column(pixels, pixel, u32::to_le_bytes);
        Ok(&self.memory[..plan.end])
    }

    /// Memory for the message, with the front in it: the table, and the part after the source name.
    #[inline]
    fn start<const SLOTS: usize>(
        &mut self,
        plan: &Plan,
        identifier: [u8; 4],
        slots: [u16; SLOTS],
        name: Place,
        source_name: &str,
    ) -> Result<(&mut [u8; TABLE], Rest<'_>), TooLarge> {
        if plan.end > LIMIT {
            return Err(TooLarge { bytes: plan.end });
        }
        if self.memory.len() < plan.end {
            self.memory.resize(plan.end, 0);
        }
        if self.identifier != identifier || self.source_name != source_name {
            self.lay_front(plan, identifier, &slots, name, source_name);
        }
        let (front, bytes) = self.memory[..plan.end].split_at_mut(plan.text_end);
        let table = front[plan.table..].first_chunk_mut().expect("the front has a table");
        Ok((table, Rest { bytes, at: plan.text_end }))
    }

    /// Everything that the messages of a schema and a source have in common.
    #[cold]
    fn lay_front(
        &mut self,
        plan: &Plan,
        identifier: [u8; 4],
        slots: &[u16],
        name: Place,
        source_name: &str,
    ) {
        let out = &mut self.memory[..plan.text_end];
        // Gaps are set to zero.
        out.fill(0);
        put(out, 0, (plan.table as u32).to_le_bytes());
        put(out, 4, identifier);
        put(out, VTABLE, (4 + 2 * slots.len() as u16).to_le_bytes());
        put(out, VTABLE + 2, (TABLE as u16).to_le_bytes());
        for (i, slot) in slots.iter().enumerate() {
            put(out, VTABLE + 4 + 2 * i, slot.to_le_bytes());
        }
        // The table's way back to the vtable, and the name.
        put(out, plan.table, ((plan.table - VTABLE) as i32).to_le_bytes());
        refer(&mut out[plan.table..], 4, plan, name);
        put(out, name.at, (source_name.len() as u32).to_le_bytes());
        out[name.at + 4..][..source_name.len()].copy_from_slice(source_name.as_bytes());
        self.identifier = identifier;
        source_name.clone_into(&mut self.source_name);
    }
}

/// Where everything goes. Positions are from the start of the buffer, where alignment is counted.
struct Plan {
    table: usize,
    /// End of the source name.
    text_end: usize,
    end: usize,
}

impl Plan {
    fn new(slots: usize) -> Self {
        let table = (VTABLE + 4 + 2 * slots).next_multiple_of(8);
        Self { table, text_end: 0, end: table + TABLE }
    }

    /// Length word, bytes, a zero; then up to a multiple of 4.
    fn text(&mut self, text: &str) -> Place {
        let at = self.end;
        self.end = (at + 4 + text.len() + 1).next_multiple_of(4);
        self.text_end = self.end;
        Place { at, end: self.end }
    }

    /// Length word right in front of values at a multiple of their size.
    fn vector(&mut self, size: usize, length: usize) -> Place {
        let at = (self.end + 4).next_multiple_of(size) - 4;
        self.end = length.saturating_mul(size).saturating_add(at + 4);
        Place { at, end: self.end }
    }
}

/// Where a text or vector goes.
#[derive(Clone, Copy)]
struct Place {
    /// Its length word.
    at: usize,
    end: usize,
}

fn put<const N: usize>(out: &mut [u8], at: usize, bytes: [u8; N]) {
    out[at..at + N].copy_from_slice(&bytes);
}

/// An offset in the table, relative to its own place.
fn refer(table: &mut [u8], at: usize, plan: &Plan, target: Place) {
    put(table, at, ((target.at - plan.table - at) as u32).to_le_bytes());
}

/// What is not written yet, front to back, over an older message.
struct Rest<'a> {
    bytes: &'a mut [u8],
    /// Position of its first byte.
    at: usize,
}

impl Rest<'_> {
    #[inline]
    fn column<T: Copy, const N: usize>(
        &mut self,
        place: Place,
        values: &[T],
        bytes: impl Fn(T) -> [u8; N],
    ) {
        let (out, rest) = std::mem::take(&mut self.bytes).split_at_mut(place.end - self.at);
        let gap = place.at - self.at;
        (self.bytes, self.at) = (rest, place.end);
        // At most one word, in front of values of 8 bytes.
        if gap > 0 {
            out[..gap].fill(0);
        }
        put(out, gap, (values.len() as u32).to_le_bytes());
        match values {
            // One pulse as a separate case: most messages have one. A call of `memcpy` takes longer than the store.
            [one] => put(out, gap + 4, bytes(*one)),
            values => copy(out[gap + 4..].as_chunks_mut().0, values, bytes),
        }
    }
}

/// A separate function: its two arguments are known not to overlap, and so it becomes one `memcpy`.
#[inline(never)]
fn copy<T: Copy, const N: usize>(out: &mut [[u8; N]], values: &[T], bytes: impl Fn(T) -> [u8; N]) {
    for (out, value) in out.iter_mut().zip(values) {
        *out = bytes(*value);
    }
}
