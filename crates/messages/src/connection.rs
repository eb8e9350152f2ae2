//! ep01, and its predecessor ep00: whether a control-system channel is there.
//!
//! Refuses states that the schema does not name. Source: `docs/formats/flatbuffers.md` section 4.2.

use super::field::{enumeration, table};

enumeration! {
    /// State of the connection to a channel.
    #[expect(missing_docs, reason = "the names of EPICS, which explains them")]
    pub enum ConnectionState: ep01 ConnectionInfo Ep01 "status" {
        Unknown = UNKNOWN "UNKNOWN",
        NeverConnected = NEVER_CONNECTED "NEVER_CONNECTED",
        Connected = CONNECTED "CONNECTED",
        Disconnected = DISCONNECTED "DISCONNECTED",
        Destroyed = DESTROYED "DESTROYED",
        Cancelled = CANCELLED "CANCELLED",
        Finished = FINISHED "FINISHED",
        RemoteError = REMOTE_ERROR "REMOTE_ERROR",
    }
}

impl ConnectionState {
    /// The number that the schema gives it.
    pub fn number(self) -> i16 {
        self as i16
    }
}

table! {
    /// The connection to a channel changed (ep01).
    pub struct Connection<'a>: ep01 EpicsPVConnectionInfo EpicsPVConnectionInfoArgs {
        /// ns since 1970 UTC.
        pub timestamp: i64,
        /// How it is now.
        pub status: ConnectionState,
        /// Channel.
        pub source_name: &'a str,
        /// Who saw it.
        pub service_id: Option<&'a str>,
    }
}

enumeration! {
    /// State of the connection to a channel, as the predecessor names it.
    #[expect(missing_docs, reason = "the names of EPICS, which explains them")]
    pub enum ConnectionEvent: ep00 EventType Ep00 "type" {
        Unknown = UNKNOWN "UNKNOWN",
        NeverConnected = NEVER_CONNECTED "NEVER_CONNECTED",
        Connected = CONNECTED "CONNECTED",
        Disconnected = DISCONNECTED "DISCONNECTED",
        Destroyed = DESTROYED "DESTROYED",
    }
}

impl ConnectionEvent {
    /// The number that the schema gives it: that of the same [`ConnectionState`].
    pub fn number(self) -> i16 {
        self as i16
    }
}

table! {
    /// The connection to a channel changed (ep00).
    pub struct OldConnection<'a>: ep00 EpicsConnectionInfo EpicsConnectionInfoArgs {
        /// ns since 1970 UTC.
        pub timestamp: u64,
        /// How it is now.
        #[serde(rename = "type")]
        pub type_: ConnectionEvent,
        /// Channel.
        pub source_name: Option<&'a str>,
        /// Who saw it.
        pub service_id: Option<&'a str>,
    }
}
