//! How much faster a detector is from memory with several builder threads than with one.
//!
//! Both are measured by turns; each round gives a ratio, so that what else the machine does meets both alike. Beside them as many pipelines
//! run apart, with one thread each and nothing to do with each other: what they reach together is what these CPUs have to give, and no
//! program can gain more. Source: `docs/lab.md`.

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
    /// The same of as many pipelines apart, with one thread each, together.
    pub apart: Vec<f64>,
}

impl Speedup {
    fn figure(&self) -> Option<Figure> {
        Figure::of(&self.ratios, "times one thread")
    }

    /// What as many pipelines apart reach.
    fn bound(&self) -> Option<Figure> {
        Figure::of(&self.apart, "times one thread")
    }

    /// How much of that the builder threads reach.
    fn share(&self) -> Option<Figure> {
        let each = self.ratios.iter().zip(&self.apart);
        Figure::of(&each.map(|(n, apart)| n / apart).collect::<Vec<f64>>(), "of pipelines apart")
    }

    /// Notes the ratios in a results file.
    pub fn note(&self, record: &mut Record) {
        let Speedup { detector, input, threads, .. } = self;
        let name = format!("{detector}_{input}_build-{threads}");
        record.figure(&format!("speedup_{name}"), self.figure().as_ref());
        record.figure(&format!("apart_{name}"), self.bound().as_ref());
        record.figure(&format!("of_apart_{name}"), self.share().as_ref());
    }
}

/// The table; empty if there is nothing in it.
pub fn markdown(all: &[Speedup]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut text = "\n| detector | input | builder threads | times one (least–most) | as many pipelines apart | of that |\n\
                    |:--|:--|--:|--:|--:|--:|\n"
        .to_owned();
    for s in all {
        let Speedup { detector, input, threads, .. } = s;
        let [gain, bound, share] =
            [s.figure(), s.bound(), s.share()].map(|f| Figure::cell(f, 2, 1.0));
        text.push_str(&format!(
            "| {detector} | {input} | {threads} | {gain} | {bound} | {share} |\n"
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
            apart: vec![2.0, 1.5, 1.6],
        };
        let table = markdown(std::slice::from_ref(&s));
        assert!(
            table.contains(
                "| gdgem | simulated | 2 | 1.80 (1.50–1.90) | 1.60 (1.50–2.00) | 1.00 (0.95–1.12) |"
            ),
            "{table}"
        );
        let mut record =
            Record::new("detectors", "now".into(), None, serde_json::Value::Null).unwrap();
        s.note(&mut record);
        let json = record.json();
        assert_eq!(json["figures"]["speedup_gdgem_simulated_build-2"]["value"], 1.8);
        assert_eq!(json["figures"]["apart_gdgem_simulated_build-2"]["value"], 1.6);
        assert_eq!(json["figures"]["of_apart_gdgem_simulated_build-2"]["value"], 1.0);
    }
}
