//! What became of every packet: the ledger's entries read as one account.
//!
//! Amounts come from gaps in the numbering or from the sender's count; kernel counters only name the
//! place (with GRO they count trains): [`crate::places`] matches the two. With the sender's count known,
//! `sent = delivered + lost + rejected + queued` must hold as well.
//! Source: `docs/contracts.md`, "Ledger".

use fullcount_core::ledger::{Entries, Entry, Place, Role, Unit};

use crate::places::watch::{PlaceWatch, Testimony};
use crate::places::{Shared, Shares};

/// Places in the order of [`Place::ALL`].
const SOCKET: usize = 3;
const QUEUE: usize = 5;
const UNKNOWN: usize = 7;

/// Packets of a run, by what became of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Account {
    /// The sender's own count, where it is known.
    pub sent: Option<u64>,
    /// What streams of numbered packets announced, if they did: then every accepted packet is a first copy.
    announced: Option<Announced>,
    /// Received from the source.
    pub received: u64,
    /// Decoded and delivered; of numbered streams first copies only, end marks not counted.
    pub accepted: u64,
    /// Refused, by counter name.
    pub rejected: Vec<(String, u64)>,
    /// Trains that did not fit their slot.
    pub truncated: u64,
    /// Waiting when the account was made.
    pub queued: u64,
    /// Missing, by place, in the order of [`Place::ALL`]; all of them add up to all that is lost.
    pub lost: [u64; 8],
    /// Of those at `unknown`: packets that are known to be lost at one of a few places.
    pub shared: Vec<Shared>,
    /// What named the places: counters of the host that moved, by place.
    pub testimony: Vec<(Place, Vec<Testimony>)>,
    /// True if the host's counters were read beside the run.
    pub watched: bool,
    /// Gaps that may be longer by whole turns of a short number: if there is any, all that is lost is a lower bound.
    pub at_least: u64,
    /// Copies.
    pub duplicate: u64,
    /// Out of order but in time.
    pub reordered: u64,
    /// Behind the window.
    pub late: u64,
    /// New beginnings of senders.
    pub restarts: u64,
    /// What senders number instead of packets, where the detector does.
    pub lost_numbered: Vec<NumberedLoss>,
    /// Sum of all hops' differences, plus that against the sender's count.
    pub balance: u64,
}

impl Account {
    /// Reads the account from the counters; `sent` is the sender's own count if there is one.
    pub fn of(entries: &Entries, sent: Option<u64>) -> Account {
        Account::watched(entries, sent, None)
    }

    /// As [`Account::of`], with places from a watch over the host's counters. Without one, the sockets'
    /// own drop count names the place of everything.
    pub fn watched(entries: &Entries, sent: Option<u64>, watch: Option<&PlaceWatch>) -> Account {
        let packets = |role| path(entries, role);
        let first = |name: &str| entries.get(name).unwrap_or(0);
        // A numbered stream's end mark is the sender's count as well.
        let announced = Announced::of(entries);
        let mut a = Account {
            sent: sent.or(announced.map(|a| a.total)),
            announced,
            received: first("receive.packets"),
            truncated: first("receive.truncated"),
            queued: packets(Role::Queued),
            at_least: first("packets.lost_at_least"),
            duplicate: packets(Role::Duplicate),
            reordered: packets(Role::Reordered),
            late: packets(Role::Late),
            restarts: entries.sum(Unit::Times, Role::Restarts) + packets(Role::Restarts),
            ..Account::default()
        };
        let is_rejected = |r: Role| matches!(r, Role::Rejected);
        a.rejected = entries
            .iter()
            // What a fault drops on purpose shows as a gap in the numbering already.
            .filter(|e| e.info.hop != "fault" && on_the_path(e))
            .filter(|e| e.info.unit == Unit::Packets && is_rejected(e.info.role) && e.value > 0)
            .map(|e| (e.info.name.to_string(), e.value))
            .collect();
        a.accepted = first("decode.accepted");
        a.place(entries);
        a.lost_numbered =
            Unit::NUMBERED.iter().filter_map(|&unit| NumberedLoss::of(entries, unit)).collect();
        match watch {
            Some(watch) => {
                a.watched = true;
                for series in &mut a.lost_numbered {
                    let shares = watch.numbered_shares(series.unit, series.lost[UNKNOWN]);
                    share_out(&mut series.lost, &shares);
                    series.shared = shares.shared;
                }
                let shares = watch.shares(a.lost[UNKNOWN]);
                a.share_out(shares);
                let told = Place::ALL.into_iter().map(|p| (p, watch.witnesses(p)));
                a.testimony = told.filter(|(_, all)| !all.is_empty()).collect();
            }
            None if entries.get("receive.kernel_drops").unwrap_or(0) > 0 => {
                let series = a.lost_numbered.iter_mut().map(|series| &mut series.lost);
                for lost in series.chain([&mut a.lost]) {
                    let all = std::mem::take(&mut lost[UNKNOWN]);
                    lost[SOCKET] = lost[SOCKET].saturating_add(all);
                }
            }
            None => {}
        }
        a.balance = entries.balance().saturating_add(a.against_sender());
        a
    }

    /// Gives every missing packet one place.
    fn place(&mut self, entries: &Entries) {
        for (slot, place) in self.lost.iter_mut().zip(Place::ALL) {
            *slot = entries.sum(Unit::Packets, Role::Missing(place));
        }
        // Packets that our own full queue dropped leave gaps in the numbering too: they are the same.
        let (_, dropped) = Account::numbered_gaps(entries);
        self.lost[QUEUE] = self.lost[QUEUE].saturating_add(dropped);
        self.lost[UNKNOWN] = self.lost[UNKNOWN].saturating_sub(dropped);
        if let Some(sent) = self.sent.filter(|_| self.announced.is_none()) {
            // The numbering cannot show what is missing behind the last packet; the sender can.
            let missing = sent.saturating_sub(self.first_copies());
            let known = self.lost_total().saturating_sub(self.lost[QUEUE]);
            let more = missing.saturating_sub(known);
            self.lost[UNKNOWN] = self.lost[UNKNOWN].saturating_add(more);
        }
    }

    /// Packets that are lost by their numbers, wherever; and those that our own full queue dropped,
    /// which leave gaps in the numbers as well.
    pub(crate) fn numbered_gaps(entries: &Entries) -> (u64, u64) {
        let lost = entries.sum(Unit::Packets, Role::Missing(Place::Unknown));
        (lost, path(entries, Role::Dropped(Place::Queue)))
    }

    /// Moves what is unknown to its places; shared parts stay in `unknown` and are listed beside it.
    fn share_out(&mut self, shares: Shares) {
        share_out(&mut self.lost, &shares);
        self.shared = shares.shared;
    }

    /// Packets of which nothing at all is known: `unknown` without the shared ones.
    pub fn unexplained(&self) -> u64 {
        unexplained(&self.lost, &self.shared)
    }

    /// True if a packet, or anything else that a sender numbered, is missing, or may be by whole turns of its number.
    pub fn anything_lost(&self) -> bool {
        let of_series = |s: &NumberedLoss| s.at_least > 0 || s.lost_total() > 0;
        self.at_least > 0 || self.lost_total() > 0 || self.lost_numbered.iter().any(of_series)
    }

    /// `|sent − delivered − lost − rejected|` for what the sender counted.
    fn against_sender(&self) -> u64 {
        let Some(sent) = self.sent else { return 0 };
        if let Some(announced) = self.announced {
            // Streams that announced no end have no count to be held against.
            let PacketParts { delivered, lost, rejected } = announced.of;
            let known = delivered.saturating_add(lost).saturating_add(rejected);
            return announced.total.abs_diff(known).saturating_add(sent.abs_diff(announced.total));
        }
        let before = self.lost_total().saturating_sub(self.lost[QUEUE]);
        sent.abs_diff(self.first_copies().saturating_add(before))
    }

    /// What became of the packets that [`Account::sent`] counts.
    pub fn of_sent(&self) -> PacketParts {
        self.announced.map_or_else(
            || PacketParts {
                delivered: self.delivered(),
                lost: self.lost_total(),
                rejected: self.rejected_total(),
            },
            |announced| announced.of,
        )
    }

    /// What came of numbered streams that did not say how many they sent, and what of them is lost; `None` where no
    /// stream said so.
    pub fn unannounced(&self) -> Option<PacketParts> {
        self.announced.map(|announced| announced.others)
    }

    /// Packets received that are neither copies nor too late; late ones count as lost.
    fn first_copies(&self) -> u64 {
        if self.announced.is_some() {
            return self.accepted;
        }
        self.received.saturating_sub(self.duplicate).saturating_sub(self.late)
    }

    /// First copies that were decoded.
    pub fn delivered(&self) -> u64 {
        if self.announced.is_some() {
            return self.accepted;
        }
        self.accepted.saturating_sub(self.duplicate).saturating_sub(self.late)
    }

    /// All lost packets.
    pub fn lost_total(&self) -> u64 {
        self.lost.iter().fold(0, |sum, &n| sum.saturating_add(n))
    }

    /// All refused packets.
    pub fn rejected_total(&self) -> u64 {
        self.rejected.iter().map(|(_, n)| n).sum()
    }

    /// Packet error ratio: lost / (received first copies + lost); 0 if nothing is known.
    pub fn per(&self) -> f64 {
        let all = self.first_copies().saturating_add(self.lost_total());
        if all == 0 { 0.0 } else { self.lost_total() as f64 / all as f64 }
    }
}

/// Packets by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketParts {
    /// First copies that were accepted.
    pub delivered: u64,
    /// Missing by number, at whatever place.
    pub lost: u64,
    /// Refused, with a number that can be read.
    pub rejected: u64,
}

impl PacketParts {
    /// True if there is anything.
    pub fn is_any(&self) -> bool {
        *self != PacketParts::default()
    }
}

/// Streams of numbered packets whose end was announced, and the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Announced {
    /// Packets that they say they sent.
    total: u64,
    of: PacketParts,
    others: PacketParts,
}

impl Announced {
    fn of(entries: &Entries) -> Option<Announced> {
        let get = |name| entries.get(name).unwrap_or(0);
        let of = PacketParts {
            delivered: get("packets.announced.delivered"),
            lost: get("packets.announced.lost"),
            rejected: get("packets.announced.rejected"),
        };
        let lost = get("packets.lost").saturating_add(get("packets.lost.down"));
        let others = PacketParts {
            delivered: get("decode.accepted").saturating_sub(of.delivered),
            lost: lost.saturating_sub(of.lost),
            rejected: get("errors.payload.pattern").saturating_sub(of.rejected),
        };
        let total = get("packets.announced");
        (total > 0).then_some(Announced { total, of, others })
    }
}

/// What senders number instead of their packets, by what became of it; amounts in its unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedLoss {
    /// What is numbered.
    pub unit: Unit,
    /// Missing for good, by place, in the order of [`Place::ALL`].
    pub lost: [u64; 8],
    /// Of those at `unknown`: lost at one of a few places; amounts in this unit.
    pub shared: Vec<Shared>,
    /// Gaps that may be longer by whole turns of a short number: if there is any, all that is lost is a lower bound.
    pub at_least: u64,
    /// Missing so far, may still come.
    pub missing: u64,
    /// Copies.
    pub duplicate: u64,
    /// Out of order but in time.
    pub reordered: u64,
    /// Behind the window.
    pub late: u64,
    /// New beginnings of senders.
    pub restarts: u64,
    /// How many of them a packet held at most.
    pub most_in_packet: u64,
}

impl Default for NumberedLoss {
    fn default() -> Self {
        NumberedLoss {
            unit: Unit::NUMBERED[0],
            lost: [0; 8],
            shared: Vec::new(),
            at_least: 0,
            missing: 0,
            duplicate: 0,
            reordered: 0,
            late: 0,
            restarts: 0,
            most_in_packet: 0,
        }
    }
}

impl NumberedLoss {
    /// Reads the lines of `unit`; `None` if the run numbers no such thing.
    pub fn of(entries: &Entries, unit: Unit) -> Option<NumberedLoss> {
        let counted = |e: &&Entry| e.info.unit == unit && matches!(e.info.role, Role::Missing(_));
        entries.iter().find(counted)?;
        let note = |what: &str| entries.get(&format!("{}.{what}", unit.key())).unwrap_or(0);
        Some(NumberedLoss {
            unit,
            lost: Place::ALL.map(|place| entries.sum(unit, Role::Missing(place))),
            shared: Vec::new(),
            at_least: note("lost_at_least"),
            missing: note("missing"),
            duplicate: entries.sum(unit, Role::Duplicate),
            reordered: entries.sum(unit, Role::Reordered),
            late: entries.sum(unit, Role::Late),
            restarts: entries.sum(unit, Role::Restarts),
            most_in_packet: note("most_in_packet"),
        })
    }

    /// All that is lost.
    pub fn lost_total(&self) -> u64 {
        self.lost.iter().fold(0, |sum, &n| sum.saturating_add(n))
    }

    /// Of which nothing at all is known: `unknown` without what is shared.
    pub fn unexplained(&self) -> u64 {
        unexplained(&self.lost, &self.shared)
    }
}

/// Moves what is unknown to its places; shared parts stay in `unknown`.
fn share_out(lost: &mut [u64; 8], shares: &Shares) {
    let all = std::mem::take(&mut lost[UNKNOWN]);
    for (slot, n) in lost.iter_mut().zip(shares.at) {
        *slot = slot.saturating_add(n);
    }
    let shared = all.saturating_sub(shares.at.iter().fold(0, |a, &n| a.saturating_add(n)));
    lost[UNKNOWN] = lost[UNKNOWN].saturating_add(shared);
}

fn unexplained(lost: &[u64; 8], shared: &[Shared]) -> u64 {
    let shared = shared.iter().fold(0u64, |sum, s| sum.saturating_add(s.packets));
    lost[UNKNOWN].saturating_sub(shared)
}

/// False for a copy of packets beside the path to events: what a capture lacks is no lost packet.
fn on_the_path(entry: &Entry) -> bool {
    !entry.info.hop.starts_with("sink.")
}

/// Packets in one role on the path to events.
fn path(entries: &Entries, role: Role) -> u64 {
    let counts = |e: &&Entry| e.info.unit == Unit::Packets && e.info.role == role && on_the_path(e);
    entries.iter().filter(counts).fold(0, |sum, e| sum.saturating_add(e.value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_core::ledger::{Ledger, Sheet};

    fullcount_core::counters! {
        /// The lines that the account reads.
        enum C {
            Received "receive.packets" Packets Sum "receive" In "r" "";
            Accepted "receive.accepted" Packets Sum "receive" Accepted "a" "";
            Kernel "receive.kernel_drops" Times Sum "receive" Note "k" "";
            Ring "ring.packets" Packets Sum "ring" In "i" "";
            Taken "ring.taken" Packets Sum "ring" Accepted "t" "";
            Dropped "receive.dropped" Packets Sum "ring" Dropped(Queue) "d" "";
            Decode "decode.packets" Packets Sum "decode" In "d" "";
            Good "decode.accepted" Packets Sum "decode" Accepted "g" "";
            Bad "errors.header.version" Packets Sum "decode" Rejected "v" "";
            Lost "packets.lost" Packets Sum "decode" Missing(Unknown) "l" "";
            Down "packets.lost.down" Packets Sum "decode" Missing(Down) "d" "";
            Announced "packets.announced" Packets Sum "decode" Note "a" "";
            OfDelivered "packets.announced.delivered" Packets Sum "decode" Note "d" "";
            OfLost "packets.announced.lost" Packets Sum "decode" Note "l" "";
            OfRejected "packets.announced.rejected" Packets Sum "decode" Note "r" "";
            Pattern "errors.payload.pattern" Packets Sum "decode" Rejected "p" "";
            EventsLost "container_events.lost" ContainerEvents Sum "decode" Missing(Unknown) "l" "";
            EventsAtLeast "container_events.lost_at_least" Times Sum "decode" Note "t" "";
            EventsMissing "container_events.missing" ContainerEvents Sum "decode" Note "m" "";
            EventsAgain "container_events.restarts" ContainerEvents Sum "decode" Restarts "r" "";
            EventsMost "container_events.most_in_packet" ContainerEvents Max "decode" Note "m" "";
            Copies "packets.duplicate" Packets Sum "decode" Duplicate "c" "";
            Offered "sink.capture.packets" Packets Sum "sink.capture" In "o" "";
            Written "sink.capture.written" Packets Sum "sink.capture" Accepted "w" "";
            NotTaken "sink.capture.dropped" Packets Sum "sink.capture" Dropped(Queue) "n" "";
            TooLong "sink.capture.too_long" Packets Sum "sink.capture" Rejected "t" "";
        }
    }

    fn account(values: &[(C, u64)], sent: Option<u64>) -> Account {
        let (ledger, sheet) = (Ledger::default(), Sheet::new(C::catalogue()));
        for &(line, n) in values {
            sheet.add(line as usize, n);
        }
        ledger.register(sheet);
        Account::of(&ledger.read(), sent)
    }

    #[test]
    fn gaps_give_the_amount_and_the_kernel_the_place() {
        // 62,848 packets missing showed as 982 kernel drops: the amount is never the kernel's.
        let got = account(&[(C::Lost, 62_848), (C::Kernel, 982)], None);
        assert_eq!(got.lost[3], 62_848, "socket");
        assert_eq!(got.lost_total(), 62_848);
        let got = account(&[(C::Lost, 5)], None);
        assert_eq!(got.lost[7], 5, "unknown");
    }

    #[test]
    fn places_are_named_by_their_position() {
        let named = [Place::ALL[SOCKET], Place::ALL[QUEUE], Place::ALL[UNKNOWN]];
        assert_eq!(named, [Place::Socket, Place::Queue, Place::Unknown]);
    }

    #[test]
    fn shared_packets_stay_unknown_and_are_listed() {
        let mut got = account(&[(C::Lost, 10)], None);
        let shared = Shared { places: vec![Place::Nic, Place::Socket], packets: 4 };
        got.share_out(Shares { at: [0, 0, 0, 5, 0, 0, 0, 1], shared: vec![shared] });
        assert_eq!((got.lost[3], got.lost[7], got.lost_total()), (5, 5, 10));
        assert_eq!(got.unexplained(), 1);
    }

    #[test]
    fn what_a_capture_lacks_is_no_lost_packet_and_has_a_balance_of_its_own() {
        let mut v = vec![(C::Received, 100), (C::Accepted, 100), (C::Decode, 100), (C::Good, 100)];
        v.extend([(C::Lost, 7), (C::Offered, 100), (C::Written, 90), (C::NotTaken, 9)]);
        v.push((C::TooLong, 1));
        let got = account(&v, None);
        assert_eq!((got.lost_total(), got.lost[7], got.balance), (7, 7, 0));
        assert_eq!((got.rejected_total(), got.queued), (0, 0));
        v.push((C::Written, 1));
        assert_eq!(account(&v, None).balance, 1);
    }

    #[test]
    fn our_own_queue_explains_its_gaps_once() {
        let v = [
            (C::Received, 100),
            (C::Accepted, 100),
            (C::Ring, 100),
            (C::Dropped, 10),
            (C::Taken, 90),
            (C::Decode, 90),
            (C::Good, 89),
            (C::Bad, 1),
            (C::Lost, 10),
        ];
        let got = account(&v, Some(100));
        assert_eq!((got.lost[5], got.lost_total(), got.balance), (10, 10, 0));
        assert_eq!(got.rejected, [("errors.header.version".to_owned(), 1)]);
        assert_eq!(got.accepted, 89);
    }

    #[test]
    fn the_senders_count_shows_the_lost_tail() {
        let v = [
            (C::Received, 90),
            (C::Accepted, 90),
            (C::Decode, 90),
            (C::Good, 90),
            (C::Copies, 1),
            (C::Lost, 3),
        ];
        let got = account(&v, Some(100));
        assert_eq!((got.lost_total(), got.balance), (11, 0));
        assert!((got.per() - 0.11).abs() < 1e-12);
    }

    #[test]
    fn more_received_than_sent_does_not_balance() {
        let v = [(C::Received, 101), (C::Accepted, 101), (C::Decode, 101), (C::Good, 101)];
        assert_eq!(account(&v, Some(100)).balance, 1);
    }

    #[test]
    fn only_announced_streams_are_held_against_what_they_announced() {
        // A foreign packet, number 5, beside 25,000 announced ones: "delivered 25,001 + lost 5" was 6 too many.
        let mut v = vec![(C::Received, 25_001), (C::Accepted, 25_001), (C::Decode, 25_001)];
        v.extend([(C::Good, 25_001), (C::Lost, 5), (C::Announced, 25_000)]);
        v.push((C::OfDelivered, 25_000));
        let got = account(&v, None);
        assert_eq!((got.sent, got.balance), (Some(25_000), 0));
        assert_eq!(got.of_sent(), PacketParts { delivered: 25_000, lost: 0, rejected: 0 });
        assert_eq!(got.unannounced(), Some(PacketParts { delivered: 1, lost: 5, rejected: 0 }));
        assert_eq!((got.delivered(), got.lost_total()), (25_001, 5));
        // What is missing of the announced ones shows, whatever strangers sent.
        v.push((C::OfLost, 3));
        assert_eq!(account(&v, None).balance, 3);
        let nothing = account(&[(C::Received, 7), (C::Accepted, 7)], None);
        assert_eq!((nothing.sent, nothing.unannounced()), (None, None));
    }

    #[test]
    fn what_is_numbered_instead_of_packets_is_lost_in_its_own_unit() {
        let v =
            [(C::EventsLost, 400), (C::EventsMissing, 7), (C::EventsAgain, 1), (C::EventsMost, 40)];
        let got = account(&v, None);
        let [series] = &got.lost_numbered[..] else { panic!("{got:?}") };
        assert_eq!((series.unit, series.lost[UNKNOWN]), (Unit::ContainerEvents, 400));
        assert_eq!((series.missing, series.restarts, series.most_in_packet), (7, 1, 40));
        assert_eq!((got.lost_total(), got.restarts, got.anything_lost()), (0, 0, true));
        // Without a watch, the sockets' own drops name the place.
        let got = account(&[(C::EventsLost, 400), (C::Kernel, 2)], None);
        assert_eq!(got.lost_numbered[0].lost[SOCKET], 400);
        assert!(!account(&[(C::EventsMissing, 7)], None).anything_lost());
        // A gap of nothing that may be whole turns.
        let got = account(&[(C::EventsAtLeast, 1)], None);
        assert_eq!((got.lost_numbered[0].at_least, got.anything_lost()), (1, true));
    }
}
