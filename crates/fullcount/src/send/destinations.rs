//! `--to` and `--fault` of `send`: where packets go, and what happens to them on each way.
//!
//! Refuses what is no `udp://` endpoint, and as many faults as there are neither one nor destinations.

use fullcount_core::sim::{Fault, Spec};
use fullcount_engine::config::refuse;
use fullcount_io::endpoint::{Endpoint, Engine, UdpUrl};
use fullcount_lab::send::Destination;

use crate::exit::Failure;

/// A way without a fault, among several.
const NONE: &str = "none";

/// Destinations with their faults, in order.
pub fn read(to: &[String], faults: &[String]) -> Result<Vec<Destination>, Failure> {
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
        Ok::<_, Failure>(Destination { url: destination(to)?, fault: of(at)? })
    };
    to.iter().enumerate().map(one).collect()
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

fn destination(to: &str) -> Result<UdpUrl, Failure> {
    match to.parse::<Endpoint>() {
        Ok(Endpoint::Udp(url)) if url.engine == Engine::Uring => {
            Err(refuse("to", to, "engine=uring only receives; send with engine=gro").into())
        }
        Ok(Endpoint::Udp(url)) => Ok(url),
        Ok(Endpoint::Pcap(_) | Endpoint::Xdp(_) | Endpoint::Packet(_)) => {
            Err(refuse("to", to, "a udp:// endpoint").into())
        }
        Err(e) => Err(refuse("to", to, e.to_string()).into()),
    }
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
