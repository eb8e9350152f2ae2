//! From the receiver back to the sender, over a small channel of any kind: how much arrived, what is to be sent again; and
//! the rate that follows from it. All of it is ours: spead2 has no way back, and whoever does not use it sees plain SPEAD.
//!
//! Source: `docs/formats/spead.md`, section 20 ("missing or proposed").

mod gaps;
mod message;
mod trial;
mod tuner;

pub use gaps::{GapConfig, GapWatch};
pub use message::{FeedbackError, FeedbackMessage, ReceiverReport, ResendRequest};
pub use tuner::{RateReason, RateTuner, SentSoFar, TunerConfig, TunerDecision, TunerState};
