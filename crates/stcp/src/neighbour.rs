//! Who has the peer's address on the link: ARP as a state machine, with a look whether somebody else has ours.
//!
//! Before its first use the own address is probed once (RFC 5227); then the peer is asked for by broadcast, every 1.5 s, 20
//! times. Once known, an address is asked for again every 60 s and when a stream makes no progress: 3 times of that neighbour
//! alone, then by broadcast, since another may have its address now. If all 20 stay without answer, that is reported once, and
//! what was known stays in use. Questions for the own address are always answered, or a Linux peer stops sending ACKs after a
//! while. Refuses: nothing; ARP of others is looked at for conflicts only. Source: docs/stcp.md, "Frames"; RFC 826, 5227; RFC 1122 section 2.3.2.1.

use crate::sender::NEVER;
use crate::wire::arp::Arp;

const MS: u64 = 1_000_000;
/// Wait for an answer to the probe of the own address, ns.
const PROBE_NS: u64 = 200 * MS;
/// Between questions, ns.
const ASK_NS: u64 = 1_500 * MS;
/// Questions until the peer is not there.
const TRIES: u8 = 20;
/// Of these, so many go to a known address, as Linux does it; the rest to all.
const ALONE: u8 = 3;
/// Unanswered questions once that was reported.
const SILENT: u8 = TRIES + 1;
/// A known address is confirmed so often, ns.
const CONFIRM_NS: u64 = 60_000 * MS;

/// What is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeighbourState {
    /// Nothing yet.
    Asking,
    /// Its MAC address.
    Known([u8; 6]),
    /// Nobody answered.
    Unreachable,
    /// Somebody else has our address: nothing must be sent.
    Duplicate([u8; 6]),
}

/// One neighbour.
#[derive(Debug, Clone, Copy)]
pub struct Neighbour {
    own: ([u8; 6], [u8; 4]),
    target: [u8; 4],
    state: NeighbourState,
    tries: u8,
    probed: bool,
    /// Questions since a known neighbour was last heard.
    unanswered: u8,
    lost: bool,
    asked_at: u64,
    next_at: u64,
}

impl Neighbour {
    /// Looks for `target` (or the gateway to it) on behalf of `own`.
    pub fn new(now_ns: u64, own: ([u8; 6], [u8; 4]), target: [u8; 4]) -> Neighbour {
        Neighbour {
            own,
            target,
            state: NeighbourState::Asking,
            tries: 0,
            probed: false,
            unanswered: 0,
            lost: false,
            asked_at: now_ns,
            next_at: now_ns,
        }
    }

    /// What is known.
    pub fn state(&self) -> NeighbourState {
        self.state
    }

    /// The address is in doubt: asks at once, or, where a question has no answer yet, no sooner than another is usual. Hundreds of
    /// streams may doubt at the same time.
    pub fn doubt(&mut self, now_ns: u64) {
        if matches!(self.state, NeighbourState::Known(_)) {
            let from = match self.unanswered {
                0 => now_ns,
                _ => now_ns.max(self.asked_at + ASK_NS),
            };
            self.next_at = self.next_at.min(from);
        }
    }

    /// A known neighbour answers no more: true once, until it has answered again. Its address stays known.
    pub fn lost(&mut self) -> bool {
        core::mem::take(&mut self.lost)
    }

    /// When [`Neighbour::poll`] has something, ns.
    pub fn deadline(&self) -> Option<u64> {
        (self.next_at != NEVER).then_some(self.next_at)
    }

    /// A question to be sent now, to this MAC address.
    pub fn poll(&mut self, now_ns: u64) -> Option<([u8; 6], Arp)> {
        if now_ns < self.next_at {
            return None;
        }
        let broadcast = [0xff; 6];
        let question = |sender| Arp { request: true, sender, target: ([0; 6], self.target) };
        match self.state {
            NeighbourState::Asking if !self.probed => {
                self.probed = true;
                self.next_at = now_ns + PROBE_NS;
                // A probe names no sender, so that nobody learns anything from it.
                let probe = Arp {
                    request: true,
                    sender: (self.own.0, [0; 4]),
                    target: ([0; 6], self.own.1),
                };
                Some((broadcast, probe))
            }
            NeighbourState::Asking if self.tries >= TRIES => {
                self.state = NeighbourState::Unreachable;
                self.next_at = NEVER;
                None
            }
            NeighbourState::Asking => {
                self.tries += 1;
                self.next_at = now_ns + ASK_NS;
                Some((broadcast, question(self.own)))
            }
            NeighbourState::Known(_) if self.unanswered == TRIES => {
                (self.unanswered, self.lost) = (SILENT, true);
                self.next_at = now_ns + CONFIRM_NS;
                None
            }
            NeighbourState::Known(mac) => {
                let to = if self.unanswered < ALONE { mac } else { broadcast };
                let wait = if self.unanswered < TRIES { ASK_NS } else { CONFIRM_NS };
                self.unanswered = (self.unanswered + 1).min(SILENT);
                (self.asked_at, self.next_at) = (now_ns, now_ns + wait);
                Some((to, question(self.own)))
            }
            NeighbourState::Unreachable | NeighbourState::Duplicate(_) => {
                self.next_at = NEVER;
                None
            }
        }
    }

    /// ARP came; the answer to a question for us leaves at once.
    pub fn receive(&mut self, now_ns: u64, arp: &Arp) -> Option<([u8; 6], Arp)> {
        let (mac, ip) = arp.sender;
        if ip == self.own.1 && mac != self.own.0 {
            // Before anything was sent: we are the second. Later it is the other's business.
            if matches!(self.state, NeighbourState::Asking) {
                self.state = NeighbourState::Duplicate(mac);
                self.next_at = NEVER;
            }
            return None;
        }
        if ip == self.target
            && mac[0] & 1 == 0
            && !matches!(self.state, NeighbourState::Duplicate(_))
            && self.tries > 0
        {
            let confirmed = NeighbourState::Known(mac);
            if self.state != confirmed || self.unanswered > 0 {
                self.next_at = now_ns + CONFIRM_NS;
            }
            (self.state, self.unanswered, self.lost) = (confirmed, 0, false);
        }
        answer(self.own, arp)
    }
}

/// The answer to a question for `own`; none to anything else.
pub fn answer(own: ([u8; 6], [u8; 4]), arp: &Arp) -> Option<([u8; 6], Arp)> {
    let ours = arp.request && arp.target.1 == own.1 && arp.sender.0 != own.0;
    // A question of a group has nobody to be answered.
    let one = arp.sender.0[0] & 1 == 0;
    (ours && one).then_some((arp.sender.0, Arp { request: false, sender: own, target: arp.sender }))
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;

    const OWN: ([u8; 6], [u8; 4]) = ([2, 0, 10, 77, 0, 1], [10, 77, 0, 1]);
    const PEER: ([u8; 6], [u8; 4]) = ([2, 0, 10, 77, 0, 2], [10, 77, 0, 2]);

    fn reply() -> Arp {
        Arp { request: false, sender: PEER, target: OWN }
    }

    #[test]
    fn probes_asks_and_learns() {
        let mut n = Neighbour::new(0, OWN, PEER.1);
        let (to, probe) = n.poll(0).unwrap();
        assert_eq!((to, probe.sender.1, probe.target.1), ([0xff; 6], [0; 4], OWN.1));
        // Nothing is learnt before we have asked.
        assert!(n.receive(1, &reply()).is_none());
        assert_eq!((n.state(), n.poll(1)), (NeighbourState::Asking, None));
        let (to, question) = n.poll(PROBE_NS).unwrap();
        assert_eq!((to, question.sender, question.target.1), ([0xff; 6], OWN, PEER.1));
        n.receive(PROBE_NS + 1, &reply());
        assert_eq!(n.state(), NeighbourState::Known(PEER.0));
        assert_eq!(n.deadline(), Some(PROBE_NS + 1 + CONFIRM_NS));
        n.doubt(PROBE_NS + 2);
        assert_eq!(n.poll(PROBE_NS + 2).map(|q| q.0), Some(PEER.0));
    }

    /// Known since a microsecond, and the time.
    fn known() -> (Neighbour, u64) {
        let mut n = Neighbour::new(0, OWN, PEER.1);
        n.poll(0);
        n.poll(PROBE_NS);
        n.receive(PROBE_NS, &reply());
        (n, PROBE_NS + 1000)
    }

    /// What is asked until a question of a known neighbour has no answer for good: when, and whom.
    fn questions(n: &mut Neighbour) -> Vec<(u64, [u8; 6])> {
        let mut asked = vec![];
        loop {
            let at = n.deadline().unwrap();
            match n.poll(at) {
                Some((to, _)) => asked.push((at, to)),
                None => return asked,
            }
            assert_eq!((n.lost(), n.state()), (false, NeighbourState::Known(PEER.0)));
        }
    }

    #[test]
    fn a_known_neighbour_that_answers_no_more_is_reported_once() {
        let (mut n, from) = known();
        n.doubt(from);
        let asked = questions(&mut n);
        let wanted: Vec<_> =
            (0..20).map(|k| (from + k * ASK_NS, if k < 3 { PEER.0 } else { [0xff; 6] })).collect();
        assert_eq!(asked, wanted);
        // The last one has its time too.
        let told = from + 20 * ASK_NS;
        assert_eq!((n.lost(), n.lost(), n.state()), (true, false, NeighbourState::Known(PEER.0)));
        // It is looked for on, without another report.
        for k in 1..300 {
            let at = told + k * CONFIRM_NS;
            assert_eq!((n.deadline(), n.poll(at).map(|q| q.0)), (Some(at), Some([0xff; 6])));
            assert_eq!((n.lost(), n.state()), (false, NeighbourState::Known(PEER.0)));
        }
    }

    #[test]
    fn the_refresh_asks_like_a_doubt() {
        let (mut n, _) = known();
        let asked = questions(&mut n);
        assert_eq!((asked.len(), asked[0].0, n.lost()), (20, PROBE_NS + CONFIRM_NS, true));
    }

    #[test]
    fn an_answer_makes_it_quiet_again() {
        for unanswered in [1, 3, 4, 20, 21, 25] {
            let (mut n, from) = known();
            n.doubt(from);
            let mut at = from;
            for _ in 0..unanswered {
                at = n.deadline().unwrap();
                n.poll(at);
            }
            n.receive(at + 1, &reply());
            assert_eq!(n.deadline(), Some(at + 1 + CONFIRM_NS), "{unanswered}");
            // A report that nobody took is taken back.
            assert!(!n.lost(), "{unanswered}");
            // All of it can happen once more.
            assert_eq!((questions(&mut n).len(), n.lost()), (20, true), "{unanswered}");
        }
    }

    #[test]
    fn another_owner_of_a_known_address_is_learnt_from_a_broadcast() {
        let (mut n, from) = known();
        n.doubt(from);
        let mut at = from;
        while n.poll(at).unwrap().0 == PEER.0 {
            at = n.deadline().unwrap();
        }
        assert_eq!(at, from + 3 * ASK_NS);
        let other = [2, 0, 10, 77, 9, 9];
        n.receive(at + 1, &Arp { sender: (other, PEER.1), ..reply() });
        assert_eq!(
            (n.state(), n.deadline()),
            (NeighbourState::Known(other), Some(at + 1 + CONFIRM_NS))
        );
    }

    #[test]
    fn doubts_of_many_streams_ask_no_faster() {
        let (mut n, from) = known();
        for _ in 0..100 {
            n.doubt(from);
        }
        assert!(n.poll(from).is_some());
        for at in (from..from + ASK_NS).step_by(10_000_000) {
            n.doubt(at);
            assert_eq!(n.poll(at), None);
        }
        assert_eq!(questions(&mut n).len(), 19);
        // Nor when it is known to be silent.
        let told = from + 20 * ASK_NS;
        n.doubt(told);
        assert_eq!((n.deadline(), n.poll(told).is_some()), (Some(told), true));
        n.doubt(told + 1);
        assert_eq!((n.poll(told + 1), n.deadline()), (None, Some(told + ASK_NS)));
    }

    #[test]
    fn gives_up_after_twenty_questions() {
        let mut n = Neighbour::new(0, OWN, PEER.1);
        let mut asked = 0;
        while let Some(at) = n.deadline() {
            asked += u32::from(n.poll(at).is_some());
        }
        assert_eq!((asked, n.state()), (21, NeighbourState::Unreachable));
    }

    #[test]
    fn a_second_owner_of_the_address_stops_everything() {
        let mut n = Neighbour::new(0, OWN, PEER.1);
        n.poll(0);
        let other = [2, 9, 9, 9, 9, 9];
        n.receive(1, &Arp { request: false, sender: (other, OWN.1), target: OWN });
        assert_eq!((n.state(), n.deadline()), (NeighbourState::Duplicate(other), None));
    }

    #[test]
    fn questions_for_us_are_answered_in_every_state() {
        let mut n = Neighbour::new(0, OWN, PEER.1);
        let question = Arp { request: true, sender: PEER, target: ([0; 6], OWN.1) };
        let (to, reply) = n.receive(0, &question).unwrap();
        assert_eq!((to, reply), (PEER.0, Arp { request: false, sender: OWN, target: PEER }));
        assert!(answer(OWN, &Arp { target: ([0; 6], PEER.1), ..question }).is_none());
        assert!(answer(OWN, &reply).is_none());
    }
}
