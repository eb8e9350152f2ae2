//! The table (digitiser, channel) → (cassette, plane, coordinate): built and checked once, then read.
//!
//! Refuses a channel mapped twice, a coordinate mapped twice or outside, one that no channel has (a hole),
//! a cassette with some of its strips only, and a cassette whose planes are on different digitisers. Source:
//! `docs/formats/multiblade.md` section 3.

use fullcount_core::refusal::Refusal;
use std::collections::{BTreeMap, HashMap};

use super::published::MonitorAt;
use super::{Mode, Plane, Refuse, Sizes};

/// What a channel is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Wire or strip that makes hits.
    Hit,
    /// Beam monitor.
    Monitor,
    /// The geometry does not have it.
    Nothing,
    /// Strip in mode "1d".
    Strip1D,
    /// Wire of a cassette without strips in mode "2d".
    Cassette1D,
}

/// Where a channel leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::multiblade) struct Channel {
    /// Coordinate in its plane, over all cassettes.
    pub coordinate: u16,
    pub cassette: u16,
    pub plane: Plane,
    pub role: Use,
}

impl Channel {
    const NOTHING: Channel = Channel { coordinate: 0, cassette: 0, plane: 0, role: Use::Nothing };
}

/// Highest channel number that a mapping may name.
pub(super) const MAX_CHANNEL: u16 = 4095;

/// Channels by digitiser, ready for reading.
#[derive(Debug)]
pub(in crate::multiblade) struct Boards {
    /// Place + 1 of the digitiser of each small number: serial numbers are small.
    small: Vec<u16>,
    /// Place of every other one.
    large: HashMap<u32, usize>,
    /// At least 64 channels each.
    boards: Vec<Box<[Channel]>>,
}

/// Digitiser numbers below this are found without hashing: 128 KiB at most.
const SMALL: u32 = 1 << 16;

impl Boards {
    /// Channels of digitiser `id`.
    #[inline]
    pub fn get(&self, id: u32) -> Option<&[Channel]> {
        let at = match self.small.get(id as usize) {
            Some(0) => return None,
            Some(&at) => usize::from(at) - 1,
            None => *self.large.get(&id)?,
        };
        self.boards.get(at).map(|board| &**board)
    }
}

/// A table in the making.
pub(super) struct Table {
    sizes: Sizes,
    /// Channels by digitiser, with the number of the entry that made them, for messages.
    boards: BTreeMap<u32, BTreeMap<u16, (Channel, usize)>>,
    /// Key that entries stand under.
    key: &'static str,
    channels: u32,
}

/// A wire or a strip of a cassette.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Wire(u16),
    Strip(u16),
}

impl Table {
    pub fn new(sizes: Sizes, key: &'static str) -> Table {
        Table { sizes, boards: BTreeMap::new(), key, channels: 0 }
    }

    /// Adds a channel; `entry` counts the entries of the file from 0.
    pub fn add(
        &mut self,
        digitizer: u32,
        channel: u16,
        cassette: u16,
        part: Part,
        entry: usize,
        refuse: &Refuse<'_>,
    ) -> Result<(), Refusal> {
        let s = self.sizes;
        let say =
            |value: String, allowed: String| Err(refuse.nth(self.key, entry, value, &allowed));
        if cassette >= s.cassettes {
            let allowed = format!("cassettes are 0..={}", s.cassettes - 1);
            return say(format!("cassette {cassette} of digitiser {digitizer}"), allowed);
        }
        if channel > MAX_CHANNEL {
            return say(format!("channel {channel}"), format!("channels are 0..={MAX_CHANNEL}"));
        }
        let (name, number, count) = match part {
            Part::Wire(n) => ("wire", n, s.wires),
            Part::Strip(n) => ("strip", n, s.strips),
        };
        if number >= count {
            return say(format!("{name} {number}"), format!("{name}s are 0..={}", count - 1));
        }
        // Before a file with a large `repeat` can fill the memory.
        let most = u32::from(s.cassettes) * (u32::from(s.wires) + u32::from(s.strips));
        self.channels += 1;
        if self.channels > most {
            return say(
                format!("more than {most} channels"),
                "each wire and strip has one channel".to_owned(),
            );
        }
        let (coordinate, plane) = match part {
            Part::Wire(n) => (cassette * s.wires + n, s.wire_plane),
            Part::Strip(n) => (n, 1 - s.wire_plane),
        };
        let board = self.boards.entry(digitizer).or_default();
        let made = Channel { coordinate, cassette, plane, role: Use::Hit };
        if let Some((other, _)) = board.insert(channel, (made, entry)) {
            let value = format!(
                "digitiser {digitizer}, channel {channel}: cassettes {} and {cassette}",
                other.cassette
            );
            return say(value, "each channel is one wire or one strip".to_owned());
        }
        Ok(())
    }

    /// Looks for holes and overlaps, then fixes what each channel is used for.
    pub fn finish(
        mut self,
        mode: Mode,
        monitor: Option<MonitorAt>,
        refuse: &Refuse<'_>,
    ) -> Result<Boards, Refusal> {
        let with_strips = self.complete(refuse)?;
        let strip_plane = 1 - self.sizes.wire_plane;
        let channels = self.boards.values_mut().flat_map(BTreeMap::values_mut);
        for (channel, _) in channels {
            let strip = channel.plane == strip_plane;
            channel.role = match mode {
                Mode::OneD if strip => Use::Strip1D,
                Mode::TwoD if !with_strips[usize::from(channel.cassette)] => Use::Cassette1D,
                Mode::OneD | Mode::TwoD => Use::Hit,
            };
        }
        if let Some(at) = monitor {
            let board = self.boards.get_mut(&at.digitizer);
            match board.and_then(|board| board.get_mut(&at.channel)) {
                Some((channel, _)) => channel.role = Use::Monitor,
                None if at.must => {
                    let value = format!("digitiser {}, channel {}", at.digitizer, at.channel);
                    return Err(refuse.value("monitor", value, "a channel of the geometry"));
                }
                None => {}
            }
        }
        Ok(self.boards())
    }

    /// Which cassettes have strips; every coordinate must be there once.
    fn complete(&self, refuse: &Refuse<'_>) -> Result<Vec<bool>, Refusal> {
        let s = self.sizes;
        let mut seen: HashMap<(u16, Plane, u16), (u32, usize)> = HashMap::new();
        for (&digitizer, board) in &self.boards {
            for (c, entry) in board.values() {
                let who = (c.cassette, c.plane, c.coordinate);
                if let Some((other, _)) = seen.insert(who, (digitizer, *entry)) {
                    let value = format!(
                        "{} of cassette {} on digitisers {other} and {digitizer}",
                        self.name(c.plane, c.coordinate),
                        c.cassette
                    );
                    let allowed = "each wire and strip has one channel";
                    return Err(refuse.nth(self.key, *entry, value, allowed));
                }
            }
        }
        let mut with_strips = Vec::new();
        for cassette in 0..s.cassettes {
            let wire = |n: u16| (cassette, s.wire_plane, cassette * s.wires + n);
            let strip = |n: u16| (cassette, 1 - s.wire_plane, n);
            let strips = (0..s.strips).any(|n| seen.contains_key(&strip(n)));
            with_strips.push(strips);
            let wanted = (0..s.wires).map(wire).chain((0..s.strips).filter(|_| strips).map(strip));
            let mut digitizers = Vec::new();
            for place in wanted {
                let Some(&(digitizer, entry)) = seen.get(&place) else {
                    let value = format!(
                        "no channel for {} of cassette {cassette}",
                        self.name(place.1, place.2)
                    );
                    let allowed =
                        "each wire has a channel, and each strip of a cassette with strips";
                    return Err(refuse.value(self.key, value, allowed));
                };
                if digitizers.first().is_some_and(|&(first, _)| first != digitizer) && strips {
                    let value = format!(
                        "cassette {cassette} on digitisers {} and {digitizer}",
                        digitizers[0].0
                    );
                    let allowed = "wires and strips of a cassette on one digitiser: a packet holds one digitiser, and \
                                   nothing is joined across packets";
                    return Err(refuse.nth(self.key, entry, value, allowed));
                }
                digitizers.push((digitizer, entry));
            }
        }
        Ok(with_strips)
    }

    fn name(&self, plane: Plane, coordinate: u16) -> String {
        match plane == self.sizes.wire_plane {
            true => format!("wire {}", coordinate % self.sizes.wires),
            false => format!("strip {coordinate}"),
        }
    }

    fn boards(self) -> Boards {
        let mut out = Boards { small: Vec::new(), large: HashMap::new(), boards: Vec::new() };
        for (id, channels) in self.boards {
            let last = channels.keys().next_back().map_or(0, |&c| usize::from(c));
            let mut board = vec![Channel::NOTHING; (last + 1).max(64)];
            for (at, (channel, _)) in channels {
                board[usize::from(at)] = channel;
            }
            let place = out.boards.len();
            out.boards.push(board.into_boxed_slice());
            match u16::try_from(place + 1).ok().filter(|_| id < SMALL) {
                Some(place) => {
                    let size = out.small.len().max(id as usize + 1);
                    out.small.resize(size, 0);
                    out.small[id as usize] = place;
                }
                None => _ = out.large.insert(id, place),
            }
        }
        out
    }
}
