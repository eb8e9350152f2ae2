//! `sequence` packets for people. Same verdict as the reader, but for what needs a history.
//!
//! Source: `docs/contracts.md`, "`sequence` payload".

use fullcount_core::batch::Origin;

use super::packet::{self, SequencePayload, SequenceRefusal};
use crate::detector::{Inspected, Inspector};

/// Shows numbered packets.
pub(super) struct SequenceInspector {
    /// Check patterns too.
    pub verify: bool,
}

impl Inspector for SequenceInspector {
    fn inspect(&mut self, chunk: &[u8], _: Origin) -> Inspected {
        let mut shown = Inspected::default();
        let verdict = packet::parse(chunk).and_then(|payload| match payload {
            SequencePayload::Data { stream, number, sent_ns, pattern } => {
                shown.header.push(("stream", format!("0x{stream:08x}")));
                shown.header.push(("number", number.to_string()));
                shown.header.push(("sent", format!("{sent_ns} ns")));
                shown.header.push(("pattern", format!("{} B", pattern.len())));
                let bad = self.verify && !packet::pattern_matches(number, pattern);
                if bad { Err(SequenceRefusal::Pattern) } else { Ok(()) }
            }
            SequencePayload::End { stream, total } => {
                shown.header.push(("stream", format!("0x{stream:08x}")));
                shown.header.push(("end", format!("{total} packets sent")));
                Ok(())
            }
        });
        shown.error = verdict.err().map(|refusal| (refusal.class(), refusal.reason()));
        shown
    }
}
