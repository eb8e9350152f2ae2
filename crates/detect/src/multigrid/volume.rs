//! Where the wires and grids of the modules are in the detector, and which pixel that is.
//!
//! Refuses modules that share voxels, more pixels than can be drawn, and modules without any; says what is
//! odd but may be meant. Source: `docs/formats/multigrid.md` section 5.

use std::num::NonZeroU32;

use fullcount_core::view::PixelMap;

use super::file::{DigitalGeometry, PanelSection};
use crate::geometry::logical::Logical;

/// Pixels that a detector may have: 40 times the largest that is planned (T-REX, about 10⁵). A file with a
/// mistyped offset must not ask for gigabytes of positions.
const MOST_PIXELS: u32 = 1 << 22;

/// A module's place.
#[derive(Debug, Clone)]
struct Module {
    /// x and z by wire. Signed: a wire beyond the module's field has no place in it.
    wires: Vec<(i32, i32)>,
    /// Pixel by wire at y = 0, `None` where x or z is outside.
    columns: Vec<Option<NonZeroU32>>,
    y_offset: i32,
}

/// The whole detector.
#[derive(Debug, Clone)]
pub struct Volume {
    logical: Logical,
    modules: Vec<Module>,
}

/// Sums of positions over the hits that decide, and how many those are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sums {
    /// Of x over the wires.
    pub x: i64,
    /// Of z over the wires.
    pub z: i64,
    /// Wires, at least 1.
    pub wires: i64,
    /// Of y over the grids.
    pub y: i64,
    /// Grids, at least 1.
    pub grids: i64,
}

/// A rule that the modules break, with the number of the later module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Which of the modules.
    pub module: usize,
    /// Key.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What is allowed.
    pub allowed: String,
}

/// Half-open ranges of a module in x, y, z.
fn ranges(d: &DigitalGeometry) -> [(u32, u32); 3] {
    let range = |first: u16, n: u32| (u32::from(first), u32::from(first) + n);
    let z = u32::from(d.z_range);
    [
        range(d.x_offset, u32::from(d.num_wires) / z),
        range(d.y_offset, d.num_grids.into()),
        range(d.z_offset, z),
    ]
}

impl Volume {
    /// Places `modules`; wires are known up to `wires` of each (those that the mapping gives). `whole`: sizes of the
    /// detector that the modules are a part of; without it they are all of it.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn new(
        modules: &[DigitalGeometry],
        wires: &[u32],
        whole: Option<[u32; 3]>,
    ) -> Result<Volume, Conflict> {
        let mut ends = whole.unwrap_or([0; 3]);
        for (i, digital) in modules.iter().enumerate() {
            let own = ranges(digital);
            let beyond = whole.filter(|w| own.iter().zip(w).any(|(range, &size)| range.1 > size));
            if let Some([nx, ny, nz]) = beyond {
                let [x, y, z] = own.map(|range| range.1);
                return Err(Conflict {
                    module: i,
                    key: "digital_geometry",
                    value: format!("module {i} up to {x} × {y} × {z}"),
                    allowed: format!("within [panel] size, {nx} × {ny} × {nz}"),
                });
            }
            for (k, other) in modules[..i].iter().map(ranges).enumerate() {
                let meet = own.iter().zip(other).all(|(a, b)| a.0 < b.1 && b.0 < a.1);
                if meet {
                    let show = |r: [(u32, u32); 3]| {
                        let [x, y, z] = r.map(|(a, b)| format!("{a}..={}", b - 1));
                        format!("x {x}, y {y}, z {z}")
                    };
                    return Err(Conflict {
                        module: i,
                        key: "digital_geometry",
                        value: format!("module {i} at {}", show(own)),
                        allowed: format!(
                            "module {k} is already at {}; give other offsets",
                            show(other)
                        ),
                    });
                }
            }
            ends = [0, 1, 2].map(|axis| ends[axis].max(own[axis].1));
        }
        let [nx, ny, nz] = ends;
        let logical = Logical::new(nx, ny, nz, 1).filter(|l| l.pixels() <= MOST_PIXELS);
        let logical = logical.ok_or_else(|| Conflict {
            module: modules.len().saturating_sub(1),
            key: "digital_geometry",
            value: format!("a detector of {nx} × {ny} × {nz} pixels"),
            allowed: format!("1 to {MOST_PIXELS} pixels; look at the offsets"),
        })?;
        let place = |(digital, &wires): (&DigitalGeometry, &u32)| {
            let wires: Vec<_> = (0..wires).map(|wire| digital.wire(wire)).collect();
            // A negative number is beyond every bound as an unsigned one.
            let column = |&(x, z): &(i32, i32)| logical.pixel(x as u32, 0, z as u32, 0);
            let columns = wires.iter().map(|w| column(w).and_then(NonZeroU32::new)).collect();
            Module { wires, columns, y_offset: digital.y_offset.into() }
        };
        let modules = modules.iter().zip(wires).map(place).collect();
        Ok(Volume { logical, modules })
    }

    /// Sizes and number of pixels.
    pub fn logical(&self) -> Logical {
        self.logical
    }

    /// x and z of a wire of a module; far outside for one that no mapping gives.
    #[inline]
    pub fn wire(&self, module: usize, wire: u16) -> (i32, i32) {
        let place = self.modules.get(module).and_then(|m| m.wires.get(usize::from(wire)));
        place.copied().unwrap_or((i32::MIN, i32::MIN))
    }

    /// y of a grid of a module.
    #[inline]
    pub fn grid(&self, module: usize, grid: u16) -> i32 {
        self.modules.get(module).map_or(i32::MIN, |m| m.y_offset + i32::from(grid))
    }

    /// Pixel of one wire and one grid.
    #[inline]
    pub fn pixel(&self, module: usize, wire: u16, grid: u16) -> Option<u32> {
        let module = self.modules.get(module)?;
        let column = (*module.columns.get(usize::from(wire))?)?;
        let y = module.y_offset as u32 + u32::from(grid);
        let (nx, ny, _, _) = self.logical.sizes();
        (y < ny).then(|| column.get() + nx * y)
    }

    /// Pixel of the mean position, rounded with halves up.
    #[cold]
    pub fn mean(&self, sums: Sums) -> Option<u32> {
        let mean = |sum: i64, n: i64| {
            let rounded = (2 * sum + n).div_euclid(2 * n.max(1));
            u32::try_from(rounded).ok().filter(|_| sum >= 0)
        };
        let (x, z) = (mean(sums.x, sums.wires)?, mean(sums.z, sums.wires)?);
        self.logical.pixel(x, mean(sums.y, sums.grids)?, z, 0)
    }

    /// Pixels that no module has.
    pub fn unowned(&self, modules: &[DigitalGeometry]) -> u64 {
        let voxels =
            |d: &DigitalGeometry| ranges(d).iter().map(|r| u64::from(r.1 - r.0)).product::<u64>();
        u64::from(self.logical.pixels()) - modules.iter().map(voxels).sum::<u64>()
    }

    /// Positions and picture: the layers in depth side by side, seen from the sample; x to the right, y up.
    pub fn map(&self, panel: &PanelSection, modules: &[DigitalGeometry], text: &str) -> PixelMap {
        let (nx, ny, nz, _) = self.logical.sizes();
        let across = across(nx, ny, nz);
        let columns = nx * across;
        let rows = ny * nz.div_ceil(across);
        let n = self.logical.pixels() as usize;
        let (mut cell, mut x_m, mut y_m, mut z_m) =
            (vec![0; n], vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        let [cx, cy, cz] = panel.cell_mm.map(|c| c.0 / 1000.0);
        let middle = |size: u32| f64::from(size - 1) / 2.0;
        for at in 0..n {
            let Some((x, y, z, _)) = self.logical.place(at as u32 + 1) else { continue };
            let top = z / across * ny + (ny - 1 - y);
            cell[at] = top * columns + z % across * nx + x;
            // Columns count to the right as the sample sees them, x to the left along the beam.
            x_m[at] = -(f64::from(x) - middle(nx)) * cx;
            y_m[at] = (f64::from(y) - middle(ny)) * cy;
            z_m[at] = f64::from(z) * cz;
        }
        for digital in modules {
            let Some(centre) = digital.centre_mm else { continue };
            let [xs, ys, zs] = ranges(digital);
            let from = |at: u32, (a, b): (u32, u32)| {
                f64::from(at) - (f64::from(a) + f64::from(b - 1)) / 2.0
            };
            for z in zs.0..zs.1 {
                for y in ys.0..ys.1 {
                    for x in xs.0..xs.1 {
                        let Some(pixel) = self.logical.pixel(x, y, z, 0) else { continue };
                        let at = pixel as usize - 1;
                        x_m[at] = centre[0] / 1000.0 - from(x, xs) * cx;
                        y_m[at] = centre[1] / 1000.0 + from(y, ys) * cy;
                        z_m[at] = centre[2] / 1000.0 + from(z, zs) * cz;
                    }
                }
            }
        }
        let (name, source_text) = (panel.name.clone(), text.to_owned());
        let distance_m = panel.distance_m.0;
        PixelMap { name, columns, rows, cell, x_m, y_m, z_m, distance_m, source_text }
    }
}

/// Layers side by side so that the picture is about twice as wide as high.
fn across(nx: u32, ny: u32, nz: u32) -> u32 {
    let miss = |a: &u32| {
        let (width, height) = (f64::from(nx * a), f64::from(ny * nz.div_ceil(*a)));
        ((width / height / 2.0).ln().abs() * 1e6) as u64
    };
    (1..=nz).min_by_key(miss).unwrap_or(1)
}

#[cfg(test)]
#[path = "volume_tests.rs"]
mod tests;
