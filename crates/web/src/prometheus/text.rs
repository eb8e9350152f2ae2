//! The text format: families with help and type, samples with labels. Escapes what must be.

use std::fmt::Write as _;

use super::units;

/// Text under way.
#[derive(Debug, Default)]
pub struct ExpositionText(pub String);

/// Text behind `# HELP`: a backslash and a line feed must be escaped.
pub fn help(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

/// Text inside a label's quotes.
pub fn label(text: &str) -> String {
    help(text).replace('"', "\\\"")
}

impl ExpositionText {
    /// Begins a family.
    pub fn family(&mut self, name: &str, kind: &str, about: &str) {
        // Writing into a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {}\n# TYPE {name} {kind}", help(about));
    }

    /// One sample.
    pub fn sample(&mut self, name: &str, labels: &[(&str, String)], value: &str) {
        self.name(name, labels);
        let _ = writeln!(self.0, " {value}");
    }

    /// One sample in seconds, of a value that counts parts of them.
    pub fn seconds(&mut self, name: &str, labels: &[(&str, String)], value: u64, per: u64) {
        self.name(name, labels);
        self.0.push(' ');
        units::value(&mut self.0, value, per);
        self.0.push('\n');
    }

    fn name(&mut self, name: &str, labels: &[(&str, String)]) {
        self.0.push_str(name);
        for (at, (key, value)) in labels.iter().enumerate() {
            let begin = if at == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{begin}{key}=\"{}\"", label(value));
        }
        self.0.push_str(if labels.is_empty() { "" } else { "}" });
    }
}
