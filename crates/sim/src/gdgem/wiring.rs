//! Which FEC, VMM and channel a strip of the simulated Gd-GEM has, and which pixel two strips make.
//!
//! Four sectors of 640 strips in x and 640 in y form 2 × 2 one picture of 1280 × 1280 strips. Each plane of a sector
//! has its own FEC with ten VMMs; the second VMM of a hybrid is reversed.
//! Source: `docs/formats/gdgem.md`, sections 0, 3.1 and 6.

use serde_json::json;

/// Sectors, 2 × 2.
pub const SECTORS: usize = 4;
/// Strips of a plane of a sector.
pub const STRIPS: u16 = 640;
/// Strips of the whole detector along x and along y.
pub const SIDE: u16 = 2 * STRIPS;
/// VMMs of a plane of a sector.
pub(super) const VMMS: u16 = STRIPS / CHANNELS;
/// FECs, one a plane of a sector; they are numbered from 1.
pub(super) const FECS: usize = 2 * SECTORS;
const CHANNELS: u16 = 64;

/// Place among the FECs, from 0.
pub(super) fn fec(sector: usize, plane: usize) -> usize {
    2 * sector + plane
}

/// VMM and channel of a strip of a sector, counted from the sector's edge.
pub(super) fn input(strip: u16) -> (u16, u16) {
    let (vmm, channel) = (strip / CHANNELS, strip % CHANNELS);
    (vmm, if vmm % 2 == 0 { channel } else { CHANNELS - 1 - channel })
}

/// First strips of a sector in the whole detector: x, y.
pub(super) fn corner(sector: usize) -> [u16; 2] {
    [(sector % 2) as u16 * STRIPS, (sector / 2) as u16 * STRIPS]
}

/// Pixel number from 1 of two strips of the whole detector.
pub(super) fn pixel(x: u16, y: u16) -> u32 {
    u32::from(y) * u32::from(SIDE) + u32::from(x) + 1
}

/// The geometry file: that of vmm-sdat, a detector per sector, a VMM per line.
pub(super) fn configuration() -> String {
    let mut all = Vec::new();
    for sector in 0..SECTORS {
        for plane in 0..2 {
            for vmm in 0..VMMS {
                let mut ids = [0; CHANNELS as usize];
                for strip in vmm * CHANNELS..(vmm + 1) * CHANNELS {
                    ids[usize::from(input(strip).1)] = corner(sector)[plane] + strip;
                }
                let entry = json!({
                    "detector": sector, "plane": plane, "fec": fec(sector, plane) + 1, "vmm": vmm,
                    "id0": ids.to_vec(), "id1": [],
                });
                all.push(format!("    {entry}"));
            }
        }
    }
    format!("{{\n  \"vmm_geometry\": [\n{}\n  ]\n}}\n", all.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strip_of_both_directions_is_read_twice_once_a_sector() {
        let made: serde_json::Value = serde_json::from_str(&configuration()).unwrap();
        let entries = made["vmm_geometry"].as_array().unwrap();
        assert_eq!(entries.len(), 80);
        for plane in 0..2 {
            let mut seen = vec![0; usize::from(SIDE)];
            for e in entries.iter().filter(|e| e["plane"] == plane) {
                for id in e["id0"].as_array().unwrap() {
                    seen[id.as_u64().unwrap() as usize] += 1;
                }
            }
            assert!(seen.iter().all(|&n| n == 2));
        }
        let last = &entries[79];
        assert_eq!((&last["fec"], &last["vmm"]), (&8.into(), &9.into()));
        // Odd VMMs run backwards.
        assert_eq!((&last["id0"][0], &last["id0"][63]), (&1279.into(), &1216.into()));
        assert_eq!(pixel(1279, 1279), 1280 * 1280);
    }

    #[test]
    fn the_example_is_the_geometry_that_is_simulated() {
        let example = include_str!("../../../../docs/examples/gdgem-sectors.json");
        assert_eq!(example, configuration());
    }
}
