//! Which state of the unit a configuration file is of, and what its keys mean there.
//!
//! In 2018 the clusterers have thresholds and a least number of hits, `max_strip_gap` counts the strips that are missing, clusters are
//! matched by their last time and the position is the older micro-TPC. Refuses keys of both states in one file, since its strip gap would
//! have two meanings, and missing ones. Sources: `docs/formats/gdgem.md` sections 8 to 10; `control-and-monitoring.md` section 9.

use fullcount_core::refusal::Refusal;

use super::{File, Refuse};

/// What keys mean that differ between the states.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct State {
    pub of_2018: bool,
    /// Smallest amplitude without the over-threshold flag, by plane.
    pub thresholds: [u16; 2],
    /// Smallest number of hits of a cluster, by plane.
    pub least_hits: [u32; 2],
    /// The difference of strips is so much larger than `max_strip_gap`.
    pub missing_strips: u32,
    pub send_raw_hits: bool,
}

/// Thresholds beyond 16 bits are above all amplitudes.
fn threshold(given: u32) -> u16 {
    u16::try_from(given).unwrap_or(u16::MAX)
}

impl State {
    /// Of a file.
    pub fn of(file: &File, refuse: Refuse<'_>) -> Result<State, Refusal> {
        let keys = [("clusterer x", &file.clusterer_x), ("clusterer y", &file.clusterer_y)];
        let keys = keys.map(|(key, clusterer)| {
            let of = |get: fn(&super::Clusterer) -> Option<u32>| clusterer.as_ref().and_then(get);
            (key, of(|c| c.hit_adc_threshold), of(|c| c.min_cluster_size))
        });
        let first = keys.iter().find_map(|(key, adc, size)| {
            let name = adc.map(|_| "hit_adc_threshold").or(size.map(|_| "min_cluster_size"))?;
            Some(format!("{key}.{name}"))
        });
        let missing = |key: &str, allowed: &str| refuse(key, "missing".to_owned(), allowed);
        let Some(first) = first else {
            let Some(all) = file.adc_threshold else {
                let allowed = "an amplitude, or hit_adc_threshold in both clusterers as in 2018";
                return Err(missing("adc_threshold", allowed));
            };
            if file.perform_clustering.is_none() {
                return Err(missing("perform_clustering", "true"));
            }
            let Some(send_raw_hits) = file.send_raw_hits else {
                return Err(missing("send_raw_hits", "true or false"));
            };
            return Ok(State {
                of_2018: false,
                thresholds: [threshold(all); 2],
                least_hits: [1; 2],
                missing_strips: 0,
                send_raw_hits,
            });
        };
        if let Some(all) = file.adc_threshold {
            let allowed = format!(
                "a file without {first}, which is of 2018: max_strip_gap would have two meanings"
            );
            return Err(refuse("adc_threshold", all.to_string(), &allowed));
        }
        let mut thresholds = [0; 2];
        for (plane, (key, adc, _)) in thresholds.iter_mut().zip(keys) {
            let allowed = "an amplitude, as files of 2018 have it in both clusterers";
            let key = format!("{key}.hit_adc_threshold");
            *plane = threshold(adc.ok_or_else(|| missing(&key, allowed))?);
        }
        Ok(State {
            of_2018: true,
            thresholds,
            least_hits: keys.map(|(_, _, size)| size.unwrap_or(1)),
            missing_strips: 1,
            send_raw_hits: file.send_raw_hits.unwrap_or(false),
        })
    }
}
