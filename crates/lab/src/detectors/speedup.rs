//! How much faster a detector is from memory with several builder threads than with one.
//!
//! Both are measured by turns; each round gives a ratio, so that what else the machine does meets both alike. Refuses: nothing.
//! Source: `docs/gdgem-parallel.md`.

use crate::record::{Figure, Record};

/// One detector and input with so many builder threads, beside one.
#[derive(Debug, Clone, PartialEq)]
pub struct Speedup {
    /// Detector.
    pub detector: String,
    /// Name of its input.
    pub input: String,
    /// Builder threads, the reading one included.
    pub threads: usize,
    /// Packets a second of each round, as a multiple of those with one thread.
    pub ratios: Vec<f64>,
}

impl Speedup {
    fn figure(&self) -> Option<Figure> {
        Figure::of(&self.ratios, "times one thread")
    }

    /// Notes the ratio in a results file.
    pub fn note(&self, record: &mut Record) {
        if let Some(figure) = self.figure() {
            let Speedup { detector, input, threads, .. } = self;
            record.figure(&format!("speedup_{detector}_{input}_build-{threads}"), &figure);
        }
    }
}

/// The table; empty if there is nothing in it.
pub fn markdown(all: &[Speedup]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut text =
        "\n| detector | input | builder threads | times one (least–most) |\n|:--|:--|--:|--:|\n"
            .to_owned();
    for s in all {
        let Some(figure) = s.figure() else { continue };
        let (low, high) = figure.interval;
        text.push_str(&format!(
            "| {} | {} | {} | {:.2} ({low:.2}–{high:.2}) |\n",
            s.detector, s.input, s.threads, figure.value
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_the_median_of_the_rounds() {
        assert_eq!(markdown(&[]), "");
        let s = Speedup {
            detector: "gdgem".into(),
            input: "simulated".into(),
            threads: 2,
            ratios: vec![1.9, 1.5, 1.8],
        };
        let table = markdown(std::slice::from_ref(&s));
        assert!(table.contains("| gdgem | simulated | 2 | 1.80 (1.50–1.90) |"), "{table}");
        let mut record =
            Record::new("detectors", "now".into(), None, serde_json::Value::Null).unwrap();
        s.note(&mut record);
        let json = record.json();
        assert_eq!(json["figures"]["speedup_gdgem_simulated_build-2"]["value"], 1.8);
    }
}
