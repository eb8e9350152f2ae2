//! Several streams on one link: deficit round robin, a quantum of one segment (or super-segment) for each.
//!
//! A stream that has nothing to send, because its buffer is empty or its window closed, is passed over and keeps no credit.
//! Source: docs/stcp.md, "Several streams"; M. Shreedhar and G. Varghese, Efficient fair queuing, 1996.

/// Whose turn it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Turns {
    turn: usize,
    credit: u32,
}

impl Turns {
    /// The next stream of `streams` to be asked, with the bytes it may send; a quantum is added when its turn begins.
    pub fn next(&mut self, streams: usize, quantum: u32) -> Option<(usize, u32)> {
        if streams == 0 {
            return None;
        }
        self.turn %= streams;
        if self.credit == 0 {
            self.credit = quantum.max(1);
        }
        Some((self.turn, self.credit))
    }

    /// The stream whose turn it was sent `bytes`; 0: it had nothing, and the turn goes on.
    pub fn sent(&mut self, bytes: u32) {
        self.credit = if bytes == 0 { 0 } else { self.credit.saturating_sub(bytes) };
        if self.credit == 0 {
            self.turn = self.turn.wrapping_add(1);
        }
    }
}
