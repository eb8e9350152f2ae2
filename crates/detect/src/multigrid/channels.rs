//! From bus and channel to module, plane and coordinate, as one table that the hot path looks into.
//!
//! A bus without mapping or module and a channel that is neither wire nor grid have no
//! place. Source: `docs/formats/multigrid.md` section 4.

use super::file::MultiGridConfig;
use super::filter::Filters;
use super::mapping::Plane;

/// Where a readout belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadoutPlace {
    /// Wire or grid.
    pub coordinate: u16,
    /// Bus, which is the module.
    pub bus: u8,
    /// Which of the two planes.
    pub plane: Plane,
}

/// Buses and channels of a Mesytec word: 4 and 12 bits, side by side.
const WORD_PLACES: usize = 1 << 16;

/// All channels of all buses.
#[derive(Debug, Clone)]
pub struct Channels {
    /// By bus and channel as they stand in a word.
    words: Box<[Option<ReadoutPlace>; WORD_PLACES]>,
    /// By bus, by channel.
    buses: Vec<Vec<Option<ReadoutPlace>>>,
    filters: Vec<[Filters; 2]>,
}

impl Channels {
    /// Those of a configuration.
    pub fn new(config: &MultiGridConfig) -> Channels {
        let both = config.mappings.len().min(config.modules.len());
        let mappings = &config.mappings[..both];
        let bus = |(bus, mapping): (usize, &super::mapping::Mapping)| -> Vec<Option<ReadoutPlace>> {
            let place = |&(plane, coordinate)| ReadoutPlace { coordinate, bus: bus as u8, plane };
            mapping.channels.iter().map(|c| c.as_ref().map(place)).collect()
        };
        let buses: Vec<_> = mappings.iter().enumerate().map(bus).collect();
        let filters = mappings.iter().map(|m| m.filters.clone()).collect();
        let mut channels = Channels { words: Box::new([None; WORD_PLACES]), buses, filters };
        for at in 0..WORD_PLACES {
            channels.words[at] = channels.of((at >> 12) as u8, at as u16 & 0xfff);
        }
        channels
    }

    /// Place of a readout word.
    #[inline]
    pub fn of_word(&self, word: u32) -> Option<ReadoutPlace> {
        self.words[(word >> 12) as usize % WORD_PLACES]
    }

    /// Place of any bus and channel.
    #[inline]
    pub fn of(&self, bus: u8, channel: u16) -> Option<ReadoutPlace> {
        *self.buses.get(usize::from(bus))?.get(usize::from(channel))?
    }

    /// True if any readout may be rescaled or refused.
    pub fn filtered(&self) -> bool {
        !self.filters.iter().flatten().all(Filters::is_none)
    }

    /// From here on no amplitude of this plane is smaller, on any bus, whatever was configured; largest ones and factors stay.
    pub fn set_least(&mut self, plane: usize, least: u16) {
        let coordinates = |bus: &Vec<Option<ReadoutPlace>>| {
            let used = bus.iter().flatten().filter(|place| place.plane as usize == plane);
            used.map(|place| usize::from(place.coordinate) + 1).max().unwrap_or(0)
        };
        for (bus, filters) in self.buses.iter().zip(&mut self.filters) {
            filters[plane].set_least(coordinates(bus), least);
        }
    }

    /// Amplitude after rescaling, `None` if it is outside of its thresholds.
    #[inline]
    pub fn weight(&self, place: ReadoutPlace, adc: u16) -> Option<u16> {
        match self.filters.get(usize::from(place.bus)) {
            Some(filters) => filters[place.plane as usize].apply(place.coordinate, adc),
            None => Some(adc),
        }
    }
}

/// Bus and channel of a readout word.
pub fn bus_channel(word: u32) -> (u8, u16) {
    ((word >> 24) as u8 & 0xf, (word >> 12) as u16 & 0xfff)
}
