//! What a simulator made, neutron by neutron: the rows of a truth file.

/// The cause of a group of readouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// A neutron.
    Neutron,
    /// A dark count: one plane only, no event.
    Dark,
    /// An inconsistent readout: nothing comes of it.
    Bad,
    /// Both planes at once without a neutron: an event that is wrong.
    Coincidence,
    /// A broken packet.
    Packet,
    /// An external trigger.
    Pulse,
    /// A count of the beam monitor.
    Monitor,
}

impl Cause {
    /// Word in the truth file.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Neutron => "neutron",
            Cause::Dark => "dark",
            Cause::Bad => "bad",
            Cause::Coincidence => "coincidence",
            Cause::Packet => "packet",
            Cause::Pulse => "pulse",
            Cause::Monitor => "monitor",
        }
    }
}

/// What else of the same module lies within the format's resolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Overlap {
    /// Nothing: clean.
    #[default]
    None,
    /// A dark count, a random coincidence or a dead strip, no neutron.
    Noise,
    /// Another neutron.
    Neutron,
}

impl Overlap {
    /// Word in the truth file.
    pub fn name(self) -> &'static str {
        match self {
            Overlap::None => "none",
            Overlap::Noise => "noise",
            Overlap::Neutron => "neutron",
        }
    }
}

/// Where a neutron converts and where its track ends, in thousandths of strips: plain integers, so that rows can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spot {
    /// Conversion along x; the middle of strip n is 1000 n.
    pub x: i32,
    /// Conversion along y.
    pub y: i32,
    /// From the conversion to the end of the track along x.
    pub run_x: i32,
    /// The same along y.
    pub run_y: i32,
    /// The same along the drift, thousandths of mm.
    pub depth: i32,
}

impl Spot {
    /// Of x, y and the track's extent along both, in strips.
    pub fn of(strips: [f64; 4]) -> Spot {
        let [x, y, run_x, run_y] = strips.map(|s| (1000.0 * s).round() as i32);
        Spot { x, y, run_x, run_y, depth: 0 }
    }

    /// With the depth of the track along the drift, mm.
    pub fn deep(self, mm: f64) -> Spot {
        Spot { depth: (1000.0 * mm).round() as i32, ..self }
    }

    /// Depth of the track along the drift, mm.
    pub fn depth_mm(&self) -> f64 {
        f64::from(self.depth) / 1000.0
    }

    /// x, y and the track's extent along both, in strips.
    pub fn strips(&self) -> [f64; 4] {
        [self.x, self.y, self.run_x, self.run_y].map(|n| f64::from(n) / 1000.0)
    }
}

/// One row of truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// Number of its packet in the stream, from 0.
    pub packet: u64,
    /// Module or cassette; 0 for packets and pulses.
    pub module: u16,
    /// Time, ticks of the detector as the data carry it.
    pub time: i64,
    /// Pixel of the event that a decoder should make if nothing overlaps, from 1; 0: none.
    pub pixel: u32,
    /// What it is.
    pub kind: Cause,
    /// What else lies within the resolution.
    pub overlap: Overlap,
    /// Where it converted, for detectors whose events have a place finer than a pixel.
    pub spot: Option<Spot>,
}

impl Made {
    /// True if exactly one event with this time and pixel must come out.
    pub fn expected(&self) -> bool {
        self.pixel != 0 && self.overlap == Overlap::None
    }
}

/// Told of every row when its packet is handed out.
pub type Witness = Box<dyn FnMut(&Made) + Send>;
