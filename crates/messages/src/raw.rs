//! ar51: one raw readout packet, as it came.
//!
//! Source: `docs/formats/flatbuffers.md` section 3.2.

use serde::Serializer;

use super::field::table;

table! {
    /// One UDP payload unchanged.
    pub struct RawReadout<'a>: ar51 RawReadoutMessage RawReadoutMessageArgs {
        /// Who sent it on.
        pub source_name: &'a str,
        /// Running number of this producer, from 0.
        pub message_id: i64,
        /// The payload; serialised in hexadecimal as `raw_data_hex`.
        #[serde(rename = "raw_data_hex", serialize_with = "hexadecimal")]
        pub raw_data: Option<&'a [u8]>,
    }
}

fn hexadecimal<S: Serializer>(bytes: &Option<&[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
    match bytes {
        Some(bytes) => serializer.collect_str(&format_args!(
            "{}",
            bytes.iter().map(|b| format!("{b:02x}")).collect::<String>()
        )),
        None => serializer.serialize_none(),
    }
}
