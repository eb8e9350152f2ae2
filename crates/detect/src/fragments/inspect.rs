//! Blocks for people: the header, and what the fragment says of itself where it begins and ends.

use fullcount_core::batch::Origin;
use fullcount_instructions::Instructions;

use super::block::{FragmentBlock, HEADER};
use super::fed::{Fed, checksum, ends};
use crate::detector::{Inspected, Inspector};

/// Shows single blocks.
pub(super) struct BlockInspector;

impl Inspector for BlockInspector {
    fn inspect(&mut self, chunk: &[u8], _: Origin) -> Inspected {
        let block = match FragmentBlock::parse(chunk) {
            Ok(block) => block,
            Err(refusal) => {
                return Inspected { error: Some(refusal.words()), ..Inspected::default() };
            }
        };
        let edges = match (block.first, block.last) {
            (true, true) => "first, last",
            (true, false) => "first",
            (false, true) => "last",
            (false, false) => "middle",
        };
        let mut header = vec![
            ("source", block.source.to_string()),
            ("event", block.event.to_string()),
            ("block", format!("{} ({edges})", block.number)),
            ("payload", format!("{} B", block.len)),
        ];
        let payload = &chunk[HEADER..];
        if block.first && block.last {
            match ends([payload].into_iter()).and_then(|(first, last)| Fed::read(first, last)) {
                None => header.push(("fragment", "no header or trailer".into())),
                Some(fed) => {
                    let right = checksum([payload].into_iter(), Instructions::default());
                    let crc = match right == fed.crc {
                        true => format!("{right:#06x}"),
                        false => format!("{:#06x}, should be {right:#06x}", fed.crc),
                    };
                    header.push(("type", fed.kind.to_string()));
                    header.push(("crossing", fed.crossing.to_string()));
                    header.push(("length", format!("{} B", fed.len)));
                    header.push(("checksum", crc));
                    header.push(("status", fed.status.to_string()));
                    header.push(("throttling", fed.throttling.to_string()));
                }
            }
        }
        Inspected { header, ..Inspected::default() }
    }
}
