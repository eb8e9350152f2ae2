//! `--to` and `--fault` of `send`: where packets go, and what happens to them on each way.
//!
//! Refuses what is no destination, and as many faults as there are neither one nor destinations.

use std::path::Path;

use fullcount_core::sim::{Fault, Spec};
use fullcount_engine::config::{ConfigError, refuse};
use fullcount_engine::registered;
use fullcount_lab::send::SendTo;

use crate::exit::Failure;

/// A way without a fault, among several.
const NONE: &str = "none";

/// Destinations with their faults, in order.
pub fn read(to: &[String], faults: &[String]) -> Result<Vec<SendTo>, Failure> {
    let of = |at: usize| match faults {
        [] => Ok(None),
        // Equal draws would lose the same packets on all links.
        [one] => fault(one, at as u64),
        each => each.get(at).map_or(Ok(None), |own| fault(own, 0)),
    };
    if faults.len() > 1 && faults.len() != to.len() {
        let why = format!("one for all, or one for each of the {} destinations (--to)", to.len());
        return Err(refuse("fault", faults.join(" "), why).into());
    }
    let one = |(at, to): (usize, &String)| {
        let endpoint = registered::destinations().plan(to).map_err(ConfigError::from)?;
        Ok::<_, Failure>(SendTo { endpoint, fault: of(at)? })
    };
    to.iter().enumerate().map(one).collect()
}

/// The same URLs for heaps: a capture of heaps is one of SPEAD packets.
pub fn of_heaps(to: Vec<String>) -> Vec<String> {
    let one = |url: String| if url.starts_with("pcap:") { format!("spead+{url}") } else { url };
    to.into_iter().map(one).collect()
}

/// The same URLs; the one of `stcp` writes its frames to `file`.
pub fn recorded(to: &[String], file: Option<&Path>) -> Result<Vec<String>, Failure> {
    let Some(file) = file else { return Ok(to.to_vec()) };
    let name = file.to_string_lossy();
    let refused = |why: &str| Err(refuse("frames-to", &name, why).into());
    if name.contains(['&', '?', '#']) {
        return refused("a name without &, ? and #");
    }
    let scheme = |url: &&String| url.starts_with("stcp:");
    if to.iter().filter(scheme).count() != 1 {
        return refused("only one destination stcp:// writes its frames to a file");
    }
    let one = |url: &String| match scheme(&url) {
        true => {
            let join = if url.contains('?') { '&' } else { '?' };
            format!("{url}{join}frames_to={name}")
        }
        false => url.clone(),
    };
    Ok(to.iter().map(one).collect())
}

fn fault(text: &str, later: u64) -> Result<Option<Fault>, Failure> {
    if text == NONE {
        return Ok(None);
    }
    let wrong = |e: String| Failure::from(refuse("fault", text, e));
    let mut spec: Spec = text.parse().map_err(|e| wrong(format!("{e}")))?;
    spec.seed = spec.seed.wrapping_add(later);
    Fault::new(spec).map(Some).map_err(|e| wrong(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(all: &[&str]) -> Vec<String> {
        all.iter().map(|one| (*one).to_owned()).collect()
    }

    fn seeds(to: &[&str], faults: &[&str]) -> Vec<Option<u64>> {
        let all = read(&list(to), &list(faults)).unwrap_or_else(|e| panic!("{e:?}"));
        all.iter().map(|d| d.fault.as_ref().map(|f| f.spec().seed)).collect()
    }

    const TWO: [&str; 2] = ["udp://127.0.0.1:9000", "udp://127.0.0.1:9001"];

    #[test]
    fn one_fault_is_drawn_anew_for_each_way_and_several_are_their_own() {
        assert_eq!(seeds(&TWO, &[]), [None, None]);
        assert_eq!(seeds(&TWO, &["loss=0.1,seed=7"]), [Some(7), Some(8)]);
        assert_eq!(seeds(&TWO, &["loss=0.1,seed=7", "loss=0.1,seed=3"]), [Some(7), Some(3)]);
        assert_eq!(seeds(&TWO, &["none", "loss=0.1,seed=3"]), [None, Some(3)]);
        assert_eq!(seeds(&TWO, &["none"]), [None, None]);
        for faults in [&["none", "none", "none"][..], &["eat=1"], &["none", "eat=1"]] {
            assert!(read(&list(&TWO), &list(faults)).is_err(), "{faults:?}");
        }
        assert!(read(&list(&TWO[..1]), &list(&["none", "none"])).is_err());
    }
}
