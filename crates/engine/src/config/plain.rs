//! Keys whose value is text on the command line, where TOML may hold a number: `receive_buffer = 67108864`.
//!
//! The number goes the way of the text that a flag would have given, through the same checks: a size is bytes then, and
//! a duration is refused because its unit is missing. Refuses lists, tables and truth values.

use serde::de::{Deserialize, Deserializer, Error};

/// Text of a number, a date or a text.
///
/// # Errors
/// Any other value.
pub fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    match toml::Value::deserialize(from)? {
        toml::Value::String(text) => Ok(text),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Float(number) => Ok(number.to_string()),
        toml::Value::Datetime(time) => Ok(time.to_string()),
        other => {
            let kind = other.type_str();
            Err(D::Error::custom(format!("invalid type: {kind}, expected text or a number")))
        }
    }
}

/// The same for a key that may be left out.
///
/// # Errors
/// As [`text`].
pub fn some<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    text(from).map(Some)
}

#[cfg(test)]
mod tests {
    use super::super::*;

    fn read(file: &str) -> Result<Config, ConfigError> {
        Config::read(Some(("f.toml", file)), &[])
    }

    #[test]
    fn a_number_in_the_file_is_what_it_is_on_the_command_line() {
        let c = read(
            "[source]\nreceive_buffer = 67108864\n[time]\nepoch = 1700000000000000000\n\
             [output.capture]\nfile = 'c.pcapng'\nrotate_size = 1e9\nbuffer = 67_108_864\n\
             [output.raw]\nbrokers = 'b'\nspool = 's'\nspool_size = 4294967296\nbuffer = 8388608\n\
             [output.kafka]\nspool_size = 4294967296\n",
        )
        .unwrap();
        assert_eq!(c.source.receive_buffer, "67108864");
        assert_eq!(c.time.epoch, "1700000000000000000");
        let capture = c.output.capture.as_ref().unwrap();
        assert_eq!(
            (capture.rotate_size.as_deref(), &*capture.buffer),
            (Some("1000000000"), "67108864")
        );
        let raw = c.output.raw.as_ref().unwrap();
        assert_eq!((&*raw.spool_size, &*raw.buffer), ("4294967296", "8388608"));
        assert_eq!(c.output.kafka.as_ref().unwrap().spool_size, "4294967296");
        // What is printed is read again.
        let again = read(&c.to_toml()).unwrap();
        assert_eq!(again.to_toml(), c.to_toml());
        let c = read("[time]\nepoch = 2026-01-31T12:00:00Z\n").unwrap();
        assert_eq!(c.time.epoch, "2026-01-31T12:00:00Z");
    }

    #[test]
    fn a_number_without_its_unit_gets_the_sentence_of_the_command_line() {
        for (file, key) in [
            ("[engine]\nduration = 60\n", "engine.duration"),
            ("[engine]\nidle_exit = 2\n", "engine.idle_exit"),
            ("[engine]\nprobes = 1\n", "engine.probes"),
        ] {
            let c = read(file).unwrap();
            let Err(e) = crate::run::Plan::new("run", &c) else { panic!("{file}") };
            let text = e.to_string();
            assert!(text.contains(key), "{text}");
            assert!(
                ["for example 500ms or 8s", "100ms to 60s"].iter().any(|w| text.contains(w)),
                "{text}"
            );
        }
        let e = read("[source]\nreceive_buffer = true\n").unwrap_err().to_string();
        assert!(e.contains("line 2") && e.contains("text or a number"), "{e}");
        let e = read("[source]\nnap = [1]\n").unwrap_err().to_string();
        assert!(e.contains("line 2") && e.contains("array"), "{e}");
    }
}
