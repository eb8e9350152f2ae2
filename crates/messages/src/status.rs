//! x5f2, the heartbeat of a service, and json, text whose meaning its reader knows.
//!
//! Source: `docs/formats/flatbuffers.md` sections 4.2 and 4.4.

use super::field::table;

table! {
    /// A service's sign of life, with its description.
    pub struct Status<'a>: x5f2 Status StatusArgs {
        /// Name of the program.
        pub software_name: Option<&'a str>,
        /// Its version.
        pub software_version: Option<&'a str>,
        /// Which instance it is.
        pub service_id: Option<&'a str>,
        /// Where it runs.
        pub host_name: Option<&'a str>,
        /// Its process.
        pub process_id: u32,
        /// When the next one may be expected, ms.
        pub update_interval: u32,
        /// More, as JSON.
        pub status_json: Option<&'a str>,
    }
}

table! {
    /// Valid JSON in UTF-8.
    pub struct JsonText<'a>: json JsonData JsonDataArgs {
        /// The text.
        pub json: Option<&'a str>,
    }
}
