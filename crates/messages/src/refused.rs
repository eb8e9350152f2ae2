//! Why a buffer is no message: one variant, one counter.
//!
//! Source: `docs/formats/flatbuffers.md` sections 1 and 10.

use flatbuffers::InvalidFlatbuffer;

use super::message::Schema;

/// A buffer that is no message of these schemas.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum NotAMessage {
    /// Shorter than a root offset and an identifier.
    #[error("a buffer of {bytes} bytes is no message: 8 are the minimum")]
    TooShort { bytes: usize },
    /// An identifier that is not among the schemas.
    #[error("unknown schema `{}`: skip it, or update", .identifier.escape_ascii())]
    UnknownSchema { identifier: [u8; 4] },
    /// The verifier found an offset, a length or a text that cannot be, or a required field missing.
    #[error("damaged {schema} message: {reason}")]
    Damaged { schema: Schema, reason: InvalidFlatbuffer },
    /// A union holds a member that the schema does not have.
    #[error("{schema} message: `{field}` holds member {tag}, which the schema does not have")]
    UnknownMember { schema: Schema, field: &'static str, tag: u8 },
    /// A number that an enumeration does not have.
    #[error("{schema} message: `{field}` is {value}, which the schema does not name")]
    UnknownValue { schema: Schema, field: &'static str, value: i64 },
}

fullcount_core::counters! {
    /// What a reader of such messages counts: [`decode`](super::decode) tells it which.
    pub enum FlatCounter {
        In "flat.in" Messages Sum "flat" In "messages read from an event stream" "";
        Accepted "flat.accepted" Messages Sum "flat" Accepted "messages that were decoded" "";
        TooShort "flat.too_short" Messages Sum "flat" Rejected
            "messages of less than 8 bytes" "find out who else writes to this topic";
        UnknownSchema "flat.unknown_schema" Messages Sum "flat" Rejected
            "messages of a schema that is not read here"
            "nothing if others share the topic; else check the producer's schema";
        Damaged "flat.damaged" Messages Sum "flat" Rejected
            "messages that the verifier refused: offsets or lengths that cannot be, or a required field missing"
            "update the producer, or look for what cuts its messages (message.max.bytes)";
        UnknownMember "flat.unknown_member" Messages Sum "flat" Rejected
            "messages whose union holds a member that the schema does not have"
            "compare the versions of producer and reader";
        UnknownValue "flat.unknown_value" Messages Sum "flat" Rejected
            "messages with a number that an enumeration of the schema does not have"
            "compare the versions of producer and reader";
    }
}

impl NotAMessage {
    /// The counter of this refusal.
    pub fn counter(&self) -> FlatCounter {
        match self {
            NotAMessage::TooShort { .. } => FlatCounter::TooShort,
            NotAMessage::UnknownSchema { .. } => FlatCounter::UnknownSchema,
            NotAMessage::Damaged { .. } => FlatCounter::Damaged,
            NotAMessage::UnknownMember { .. } => FlatCounter::UnknownMember,
            NotAMessage::UnknownValue { .. } => FlatCounter::UnknownValue,
        }
    }
}
