//! The hits that a reader gives to its builder, written down as rows before the builder takes them.
//!
//! Stands before the builder only where somebody wants these rows, so that others pay nothing. Refuses nothing: pulses and
//! borders are no hits and get no row.

use std::sync::Arc;

use fullcount_core::ledger::Sheet;
use fullcount_core::products::{PlaneHit, Products};
use fullcount_core::tables::ModuleHit;
use fullcount_core::time::{Nanos, TickLength};

use crate::detector::Builder;

/// A builder whose hits are listed in [`Products::module_hits`].
pub struct Listed {
    builder: Box<dyn Builder>,
    /// Picoseconds of a tick as a fraction.
    tick: (i128, i128),
}

impl Listed {
    /// Before `builder`; `tick`: of the hits' times.
    pub fn new(builder: Box<dyn Builder>, tick: TickLength) -> Listed {
        let (num, den) = tick.fraction();
        Listed { builder, tick: (1000 * i128::from(num), i128::from(den)) }
    }

    /// Nearest picosecond, halves upwards; times beyond ±106 days stand at the end of the range.
    fn ps(&self, ticks: i64) -> i64 {
        let (num, den) = self.tick;
        let ps = (2 * i128::from(ticks) * num + den).div_euclid(2 * den);
        ps.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    fn list(&self, products: &mut Products) {
        for hit in products.plane_hits.iter().filter(|hit| hit.plane < PlaneHit::PULSE) {
            products.module_hits.push(ModuleHit {
                time_ps: self.ps(hit.time),
                module: hit.module,
                plane: hit.plane,
                coordinate: hit.coordinate,
                adc: hit.weight,
            });
        }
    }
}

impl Builder for Listed {
    fn build(&mut self, products: &mut Products, now: Option<Nanos>) {
        self.list(products);
        self.builder.build(products, now);
    }

    fn finish(&mut self, products: &mut Products) {
        self.list(products);
        self.builder.finish(products);
    }

    fn mark(&mut self) {
        self.builder.mark();
    }

    fn passed(&mut self) -> bool {
        self.builder.passed()
    }

    fn let_go(&mut self, products: &mut Products) {
        self.builder.let_go(products);
    }

    fn sheet(&self) -> Option<Arc<Sheet>> {
        self.builder.sheet()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detector::PassThrough;

    #[test]
    fn hits_become_rows_and_pulses_and_borders_do_not() {
        let tick = TickLength::new(125, 2).unwrap();
        let mut listed = Listed::new(Box::new(PassThrough), tick);
        let hit = |time, plane| PlaneHit { time, plane, coordinate: 7, weight: 9, module: 3 };
        let plane_hits = vec![
            hit(3, 0),
            hit(4, PlaneHit::PULSE),
            hit(-1, 1),
            hit(5, PlaneHit::BORDER),
            hit(i64::MAX, 1),
        ];
        let mut products = Products { plane_hits, ..Products::default() };
        listed.build(&mut products, None);
        let rows = &products.module_hits;
        assert_eq!(rows.time_ps, [187_500, -62_500, i64::MAX]);
        assert_eq!((&rows.plane[..], &rows.module[..]), (&[0, 1, 1][..], &[3, 3, 3][..]));
        assert_eq!((&rows.coordinate[..], &rows.adc[..]), (&[7; 3][..], &[9; 3][..]));
    }
}
