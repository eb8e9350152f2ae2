//! Logical geometry: pixel numbers of a detector with up to three dimensions and several panels.
//!
//! Pixels count from 1, x fastest, then y, z, panel; bounds are exclusive. Refuses sizes of 0 and more
//! pixels than 31 bits can number. Sources: the sections on pixels of `docs/formats/*.md`.

/// Sizes of a detector: `nx × ny × nz × panels` pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logical {
    nx: u32,
    ny: u32,
    nz: u32,
    panels: u32,
}

impl Logical {
    /// `None` if a size is 0 or there are more than 2³¹−1 pixels.
    pub fn new(nx: u32, ny: u32, nz: u32, panels: u32) -> Option<Logical> {
        let sizes = [nx, ny, nz, panels];
        let product = sizes.iter().try_fold(1u64, |n, &size| n.checked_mul(u64::from(size)));
        let fits = product.is_some_and(|n| (1..1 << 31).contains(&n));
        fits.then_some(Logical { nx, ny, nz, panels })
    }

    /// (nx, ny, nz, panels).
    pub fn sizes(&self) -> (u32, u32, u32, u32) {
        (self.nx, self.ny, self.nz, self.panels)
    }

    /// Number of pixels, and the largest pixel number.
    pub fn pixels(&self) -> u32 {
        self.nx * self.ny * self.nz * self.panels
    }

    /// Pixel number, 1 to [`Logical::pixels`]; `None` outside.
    #[inline]
    pub fn pixel(&self, x: u32, y: u32, z: u32, panel: u32) -> Option<u32> {
        let inside = x < self.nx && y < self.ny && z < self.nz && panel < self.panels;
        inside.then(|| 1 + x + self.nx * (y + self.ny * (z + self.nz * panel)))
    }

    /// (x, y, z, panel) of a pixel number; `None` for 0 and above the last.
    pub fn place(&self, pixel: u32) -> Option<(u32, u32, u32, u32)> {
        let at = pixel.checked_sub(1).filter(|&at| at < self.pixels())?;
        let (row, x) = (at / self.nx, at % self.nx);
        let (layer, y) = (row / self.ny, row % self.ny);
        Some((x, y, layer % self.nz, layer / self.nz))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounds_are_exclusive_and_numbers_begin_at_1() {
        let g = Logical::new(12, 40, 20, 1).unwrap();
        assert_eq!((g.pixels(), g.pixel(0, 0, 0, 0)), (9600, Some(1)));
        assert_eq!(g.pixel(3, 1, 19, 0), Some(9136), "the format's example");
        assert_eq!(g.pixel(11, 39, 19, 0), Some(9600));
        for (x, y, z, p) in [(12, 0, 0, 0), (0, 40, 0, 0), (0, 0, 20, 0), (0, 0, 0, 1)] {
            assert_eq!(g.pixel(x, y, z, p), None);
        }
        assert_eq!((g.place(0), g.place(9601)), (None, None));
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert_eq!(Logical::new(0, 1, 1, 1), None);
        assert_eq!(Logical::new(1 << 16, 1 << 15, 1, 1), None);
        assert_eq!(Logical::new(u32::MAX, u32::MAX, u32::MAX, 2), None);
        assert!(Logical::new(i32::MAX as u32, 1, 1, 1).is_some());
    }

    proptest! {
        #[test]
        fn place_inverts_pixel(nx in 1u32..50, ny in 1u32..50, nz in 1u32..9, np in 1u32..5, at in any::<u32>()) {
            let g = Logical::new(nx, ny, nz, np).unwrap();
            let pixel = 1 + at % g.pixels();
            let (x, y, z, p) = g.place(pixel).unwrap();
            prop_assert_eq!(g.pixel(x, y, z, p), Some(pixel));
        }
    }
}
