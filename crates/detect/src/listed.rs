//! The hits that a reader gives to its builder, written down as rows before the builder takes them.
//!
//! Stands before the builder only where somebody wants these rows, so that others pay nothing. Pulses and
//! borders are no hits and get no row.

use std::sync::Arc;

use fullcount_core::ledger::Sheet;
use fullcount_core::products::{Products, Want};
use fullcount_core::progress::{BatchNumber, Flush};
use fullcount_core::tables::ModuleHit;
use fullcount_core::time::{Nanos, TickLength};

use crate::detector::{CommandError, CommandInfo, Decoder};
use crate::hits::PlaneHit;
use crate::steps::{Builder, ReadThenBuild, Reader};

/// A builder whose hits are listed in [`Products::module_hits`].
pub struct Listed<B> {
    builder: B,
    /// Picoseconds of a tick as a fraction.
    tick: (i128, i128),
}

impl<B> Listed<B> {
    /// Before `builder`; `tick`: of the hits' times.
    pub fn new(builder: B, tick: TickLength) -> Listed<B> {
        let (num, den) = tick.fraction();
        Listed { builder, tick: (1000 * i128::from(num), i128::from(den)) }
    }

    /// Nearest picosecond, halves upwards; times beyond ±106 days stand at the end of the range.
    fn ps(&self, ticks: i64) -> i64 {
        let (num, den) = self.tick;
        let ps = (2 * i128::from(ticks) * num + den).div_euclid(2 * den);
        ps.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    fn list(&self, hits: &[PlaneHit], products: &mut Products) {
        for hit in hits.iter().filter(|hit| hit.plane < PlaneHit::PULSE) {
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

impl<B: Builder<Hit = PlaneHit>> Builder for Listed<B> {
    type Hit = PlaneHit;

    fn build(&mut self, hits: &mut Vec<PlaneHit>, products: &mut Products, now: Option<Nanos>) {
        self.list(hits, products);
        self.builder.build(hits, products, now);
    }

    fn flush(&mut self, reason: Flush, hits: &mut Vec<PlaneHit>, products: &mut Products) {
        self.list(hits, products);
        self.builder.flush(reason, hits, products);
    }

    fn oldest(&mut self) -> Option<BatchNumber> {
        self.builder.oldest()
    }

    fn commands(&self) -> Vec<CommandInfo> {
        self.builder.commands()
    }

    fn command(&mut self, name: &str, arguments: &[&str]) -> Result<String, CommandError> {
        self.builder.command(name, arguments)
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.builder.sheet()
    }
}

/// Both steps of a decoder, with the rows between them where somebody wants these.
pub(crate) fn joined<R, B>(
    reader: R,
    builder: B,
    (want, tick): (Want, TickLength),
) -> Box<dyn Decoder>
where
    R: Reader<Hit = PlaneHit> + 'static,
    B: Builder<Hit = PlaneHit> + 'static,
{
    match want.module_hits {
        true => Box::new(ReadThenBuild::new(reader, Listed::new(builder, tick))),
        false => Box::new(ReadThenBuild::new(reader, builder)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_become_rows_and_pulses_and_borders_do_not() {
        let tick = TickLength::new(125, 2).unwrap();
        let listed = Listed::new((), tick);
        let hit = |time, plane| PlaneHit { time, plane, coordinate: 7, weight: 9, module: 3 };
        let hits = [
            hit(3, 0),
            hit(4, PlaneHit::PULSE),
            hit(-1, 1),
            hit(5, PlaneHit::BORDER),
            hit(i64::MAX, 1),
        ];
        let mut products = Products::default();
        listed.list(&hits, &mut products);
        let rows = &products.module_hits;
        assert_eq!(rows.time_ps, [187_500, -62_500, i64::MAX]);
        assert_eq!((&rows.plane[..], &rows.module[..]), (&[0, 1, 1][..], &[3, 3, 3][..]));
        assert_eq!((&rows.coordinate[..], &rows.adc[..]), (&[7; 3][..], &[9; 3][..]));
    }
}
