//! What a format numbers, as its decoder states it, and the lines of the ledger that follow from that.
//!
//! A loss is counted in the unit that is numbered: packets in `packets.*`, anything else in lines of that unit's key, which
//! the summary shows under `lost_numbered`. Names, units and roles of the lines stand here and nowhere else. Source:
//! `docs/losses.md`.

use crate::ledger::{Info, Role, Sheet, Text, Unit};
use crate::slots::Found;

use super::{Start, Totals, Tracker};

/// Whose numbers follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// Those of one sender: its address and port.
    Sender,
    /// Those of one sender that have the same in this field.
    SenderAnd(&'static str),
    /// Those that have the same in this field, whoever sends.
    Field(&'static str),
    /// All of a run.
    Run,
}

impl Per {
    /// True if what two senders number is told apart.
    pub fn tells_senders(self) -> bool {
        matches!(self, Per::Sender | Per::SenderAnd(_))
    }
}

/// A number that bounds something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Always this one.
    Fixed(u32),
    /// A key of the configuration says it.
    Set(u32),
}

impl Limit {
    /// The number.
    pub fn get(self) -> u32 {
        let (Limit::Fixed(n) | Limit::Set(n)) = self;
        n
    }
}

/// The number in a format's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbering {
    /// Its width, 1 to 64; 64 bits never wrap.
    pub bits: u32,
    /// What is numbered: packets, or one of [`Unit::NUMBERED`].
    pub unit: Unit,
    /// What the format calls the numbers, in the plural.
    pub called: &'static str,
    /// What makes a stream of numbers.
    pub per: Per,
    /// Numbers that a missing one is waited for: a power of two, at most a quarter of the range; or the key `window`.
    pub window: Limit,
    /// Streams that are followed at a time, or the key `max_streams`; `None`: the field that makes a stream has few values.
    pub streams: Option<Limit>,
    /// Copies are not delivered again.
    pub drops_copies: bool,
}

impl Numbering {
    /// True if the number may wrap while a receiver stands still: then packets are asked to be received with their times
    /// ([`turns`](super::turns)). 32 bits last for hours.
    pub fn is_short(&self) -> bool {
        self.bits < 32
    }

    /// All bits of the number.
    pub fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.bits.clamp(1, 64))
    }

    /// A tracker for one stream.
    pub fn tracker(&self, start: Start) -> Tracker {
        Tracker::new(self.bits, self.window.get(), start)
    }
}

crate::counters! {
    /// Lines of a [`Book`], with holes for what a format calls things; `Packets` stands for what it numbers.
    enum Line {
        Seen "{key}.count" Packets Sum "decode" Note
            "{unit} whose number was read in an accepted packet, or in a refused one before its damage" "";
        Lost "{key}.lost" Packets Sum "decode" Missing(Unknown)
            "{numbers} that never came{refused}" "the places beside it say where, and what to change";
        LostByTime "{key}.lost_by_time" Packets Sum "decode" Note
            "of {key}.lost: whole turns of the {bits}-bit number, which the kernel's drops prove and its receive times count" "";
        LostAtLeast "{key}.lost_at_least" Times Sum "decode" Note
            "gaps that may be longer by whole turns of the {bits}-bit number: {key}.lost is a lower bound"
            "see host.socket.full: raise receive_buffer, or give the receiver a core of its own, so that it never stands still for a turn";
        Missing "{key}.missing" Packets Present "decode" Note
            "numbers not seen yet that may still come; they become lost when the window has passed or the run ends" "";
        Duplicate "{key}.duplicate" Packets Sum "decode" Duplicate
            "{numbers} that came again{again}" "{redundant}look for a mirrored port or a second path in the network";
        Reordered "{key}.reordered" Packets Sum "decode" Reordered
            "{unit} that came after a later one" "look for several paths, or several receive queues, between sender and receiver";
        Late "{key}.late" Packets Sum "decode" Late
            "{unit} that came after they were counted as lost{decoded}" "{window}look for several paths between sender and receiver";
        Restarts "{key}.restarts" Packets Sum "decode" Restarts "{anew} began anew" "";
        Most "{key}.most_in_packet" Packets Max "decode" Note "most {unit} of one packet" "";
        Streams "decode.streams" Times Sum "decode" Note "{streams}" "";
        Reused "decode.streams_{reused}" Times Sum "decode" Note
            "streams whose place another sender took, because {most} were known and this one was silent longest; what it had missing is lost"
            "{raise}find out who sends here";
    }
}

/// What one reader counts of all its streams, written to its sheet once per batch. The default one has no lines: it is for a
/// reader whose configured format has no numbers.
#[derive(Debug, Default)]
pub struct Book {
    counts: [u64; Line::LINES],
    /// Lines of the sheet; `None`: the format has no such thing.
    at: [Option<usize>; Line::LINES],
}

impl Book {
    /// A book for `numbering`, whose lines are appended to those of a sheet.
    pub fn new(numbering: &Numbering, lines: &mut Vec<Info>) -> Book {
        let (mut at, holes) = ([None; Line::LINES], holes(numbering));
        for (line, info) in Line::catalogue().into_iter().enumerate() {
            if has(numbering, line) {
                at[line] = Some(lines.len());
                lines.push(filled(numbering, info, &holes));
            }
        }
        Book { counts: [0; Line::LINES], at }
    }

    #[inline]
    fn add(&mut self, line: Line, n: u64) {
        // Wraps where a `late` that proved to be a restart is taken back, and where fewer are missing.
        self.counts[line as usize] = self.counts[line as usize].wrapping_add(n);
    }

    /// A stream was looked for ([`Streams::find`](super::streams::Streams::find)); one that is known changes nothing.
    pub fn found(&mut self, found: Found) {
        self.add(Line::Streams, u64::from(!matches!(found, Found::Known(_))));
        self.add(Line::Reused, u64::from(matches!(found, Found::Reused(_))));
    }

    /// Numbers were read, one after the other, of a format that does not number packets.
    #[inline]
    pub(super) fn seen(&mut self, numbers: u32) {
        self.add(Line::Seen, numbers.into());
    }

    /// A packet held so many numbers.
    #[inline]
    pub fn held(&mut self, numbers: u32) {
        let most = &mut self.counts[Line::Most as usize];
        *most = (*most).max(numbers.into());
    }

    /// Whole turns that were missed, and whether there may be more.
    pub(super) fn turned(&mut self, numbers: u64, at_least: bool) {
        self.add(Line::LostByTime, numbers);
        self.add(Line::LostAtLeast, at_least.into());
    }

    /// What changed since a tracker had the totals `before`, and `pending` numbers missing.
    pub(super) fn settle(&mut self, tracker: &Tracker, before: Totals, pending: u64) {
        let after = tracker.totals();
        for (line, now, then) in [
            (Line::Lost, after.lost, before.lost),
            (Line::Missing, tracker.pending(), pending),
            (Line::Duplicate, after.duplicate, before.duplicate),
            (Line::Reordered, after.reordered, before.reordered),
            (Line::Late, after.late, before.late),
            (Line::Restarts, after.restarted, before.restarted),
        ] {
            self.add(line, now.wrapping_sub(then));
        }
    }

    /// True if a stream began anew since the last [`Book::flush`].
    pub fn began_anew(&self) -> bool {
        self.counts[Line::Restarts as usize] > 0
    }

    /// Writes what changed.
    pub fn flush(&mut self, sheet: &Sheet) {
        let most = self.counts[Line::Most as usize];
        for (line, n) in self.counts.iter_mut().enumerate() {
            match self.at[line] {
                _ if *n == 0 || line == Line::Most as usize => {}
                Some(at) => sheet.add(at, std::mem::take(n)),
                None => *n = 0,
            }
        }
        if let Some(at) = self.at[Line::Most as usize] {
            sheet.set(at, most);
        }
    }
}

/// True if the format has this line.
fn has(n: &Numbering, line: usize) -> bool {
    let one_of = |lines: [Line; 2]| lines.map(usize::from).contains(&line);
    (n.unit != Unit::Packets || !one_of([Line::Seen, Line::Most]))
        && (n.bits < 64 || !one_of([Line::LostByTime, Line::LostAtLeast]))
        && (n.streams.is_some() || !one_of([Line::Streams, Line::Reused]))
}

/// What a format calls things.
fn holes(n: &Numbering) -> [(&'static str, String); 14] {
    let (packets, unit) = (n.unit == Unit::Packets, n.unit.name());
    let or_none = |yes: bool, text: &str| if yes { text.to_owned() } else { String::new() };
    let set = matches!(n.streams, Some(Limit::Set(_)));
    let again = format!("; decoded again, as {} bits cannot prove a copy", n.bits);
    let again = if n.is_short() { &again } else { "; decoded again" };
    [
        ("{key}", n.unit.key().to_owned()),
        ("{unit}", unit.to_owned()),
        ("{bits}", n.bits.to_string()),
        ("{numbers}", if packets { n.called } else { unit }.to_owned()),
        (
            "{refused}",
            or_none(!packets, "; none of those that can still be read in a refused packet"),
        ),
        ("{again}", or_none(!n.drops_copies, again)),
        ("{decoded}", or_none(!n.drops_copies, "; decoded")),
        (
            "{redundant}",
            or_none(
                n.drops_copies,
                "nothing with source.redundant, where each number comes by every link; else ",
            ),
        ),
        ("{window}", or_none(matches!(n.window, Limit::Set(_)), "raise detector.window, or ")),
        ("{anew}", if packets { "streams that" } else { "numbers with which a sender" }.to_owned()),
        (
            "{streams}",
            match n.per {
                Per::Sender => "senders seen: address and port".to_owned(),
                Per::SenderAnd(field) => format!("streams seen: address, port and {field}"),
                Per::Field(field) => format!("streams seen: {field}"),
                Per::Run => "streams seen".to_owned(),
            },
        ),
        ("{reused}", if set { "reused" } else { "replaced" }.to_owned()),
        (
            "{most}",
            match n.streams {
                Some(Limit::Fixed(most)) => most.to_string(),
                Some(Limit::Set(_)) | None => "detector.max_streams".to_owned(),
            },
        ),
        ("{raise}", or_none(set, "raise detector.max_streams, or ")),
    ]
}

/// The line as the format's catalogue has it.
fn filled(n: &Numbering, info: Info, holes: &[(&'static str, String)]) -> Info {
    let fill = |text: Text| {
        holes.iter().fold(text, |text, (hole, with)| match text.contains(hole) {
            true => text.replace(hole, with).into(),
            false => text,
        })
    };
    let unit = match info.unit {
        // Each is one stream.
        Unit::Packets if n.unit == Unit::Packets && info.role == Role::Restarts => Unit::Times,
        Unit::Packets => n.unit,
        other => other,
    };
    let (name, meaning, todo) = (fill(info.name), fill(info.meaning), fill(info.todo));
    Info { name, unit, meaning, todo, ..info }
}
