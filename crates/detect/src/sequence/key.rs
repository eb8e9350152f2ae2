//! What makes a stream of numbered packets: the one place that decides it.
//!
//! A stream id is the sender's choice and usually the same for all (`send` derives it from `--seed`), so
//! by default the sender's address and port belong to it. Source: `docs/contracts.md`,
//! "`sequence` payload".

use fullcount_core::batch::Origin;
use serde::Deserialize;

/// The key `detector.key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum KeyBy {
    /// Address and port of the sender, and stream id: senders are apart whatever ids they chose.
    #[default]
    Origin,
    /// Stream id alone: one stream may come over several paths, and copies of the other path are
    /// duplicates.
    Id,
}

impl KeyBy {
    /// What tells the streams of a train apart besides their ids; constant over a train.
    #[inline]
    pub fn apart(self, origin: Origin) -> Origin {
        match self {
            KeyBy::Origin => origin,
            KeyBy::Id => Origin::NONE,
        }
    }
}
