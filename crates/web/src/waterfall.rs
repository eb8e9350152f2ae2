//! One array of the newest heaps as a picture: a line for each heap, the newest on top.
//!
//! Memory is fixed: lines × cells. Of a long array neighbours are averaged, at most [`SAMPLES`] of each cell; complex numbers
//! count by their length. What is no array of numbers is counted as outside. Source: `docs/page.md`, "Plots of a new detector".

use std::sync::Arc;

use fullcount_core::heaps::HeapProduct;
use fullcount_core::view::Waterfall;
use fullcount_spead::describe::{NumpyHeader, NumpyKind, NumpyType};

/// Elements of a cell that are averaged at most.
const SAMPLES: usize = 64;

/// Cells of a line and lines that can be shown.
pub(super) const MOST_BINS: u32 = 4096;
pub(super) const MOST_LINES: u32 = 1024;

/// The newest lines.
#[derive(Debug, Clone)]
pub struct WaterfallLines {
    item: Option<String>,
    bins: usize,
    lines: usize,
    /// Cells line by line; the oldest line is the one at `next`.
    cells: Vec<f32>,
    next: usize,
    /// Header of the array that was seen last, and how it is read.
    known: Option<(Arc<str>, Option<Numbers>)>,
}

/// How numbers lie in an array.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    kind: NumpyKind,
    bytes: usize,
    big: bool,
    many: usize,
}

impl Numbers {
    fn of(header: &str) -> Option<Numbers> {
        let header = NumpyHeader::parse(header).ok()?;
        let many = header.shape.iter().product();
        let NumpyType::Plain { kind, bytes, big_endian: big, .. } = header.of else { return None };
        let good = matches!(
            kind,
            NumpyKind::Bool
                | NumpyKind::Signed
                | NumpyKind::Unsigned
                | NumpyKind::Float
                | NumpyKind::Complex
        );
        (good && !(kind == NumpyKind::Float && bytes == 2)).then_some(Numbers {
            kind,
            bytes,
            big,
            many,
        })
    }

    fn float(self, bytes: &[u8]) -> f64 {
        let mut word = [0; 8];
        let size = bytes.len().min(8);
        match self.big {
            true => word[8 - size..].copy_from_slice(&bytes[..size]),
            false => {
                bytes[..size].iter().rev().zip(&mut word[8 - size..]).for_each(|(b, w)| *w = *b)
            }
        }
        let bits = u64::from_be_bytes(word);
        match size {
            4 => f32::from_bits(bits as u32).into(),
            _ => f64::from_bits(bits),
        }
    }

    fn value(self, bytes: &[u8]) -> f64 {
        let whole = || {
            let one = |n: u64, b: &u8| n << 8 | u64::from(*b);
            match self.big {
                true => bytes.iter().fold(0, one),
                false => bytes.iter().rev().fold(0, one),
            }
        };
        match self.kind {
            NumpyKind::Signed => {
                let unused = 64 - 8 * bytes.len().min(8) as u32;
                ((whole() << unused) as i64 >> unused) as f64
            }
            NumpyKind::Float => self.float(bytes),
            NumpyKind::Complex => {
                let (re, im) = bytes.split_at(bytes.len() / 2);
                self.float(re).hypot(self.float(im))
            }
            _ => whole() as f64,
        }
    }
}

impl WaterfallLines {
    /// No lines yet.
    pub fn new(of: &Waterfall) -> WaterfallLines {
        let (bins, lines) = (of.bins as usize, of.lines as usize);
        let cells = vec![f32::NAN; bins * lines];
        WaterfallLines { item: of.item.clone(), bins, lines, cells, next: 0, known: None }
    }

    /// Cells that are shown.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// Forgets the lines.
    pub fn clear(&mut self) {
        self.cells.fill(f32::NAN);
    }

    /// Takes heaps; returns how many had the array, and how many had not.
    pub fn take(&mut self, heaps: &[Arc<HeapProduct>]) -> (u64, u64) {
        let (mut shown, mut outside) = (0, 0);
        // Older ones would be pushed out by these.
        let skipped = heaps.len().saturating_sub(self.lines);
        for heap in &heaps[skipped..] {
            match self.line(heap) {
                true => shown += 1,
                false => outside += 1,
            }
        }
        (shown + skipped as u64, outside)
    }

    fn numbers(&mut self, header: &Arc<str>) -> Option<Numbers> {
        match &self.known {
            Some((known, numbers)) if known == header => *numbers,
            _ => {
                let numbers = Numbers::of(header);
                self.known = Some((header.clone(), numbers));
                numbers
            }
        }
    }

    fn line(&mut self, heap: &HeapProduct) -> bool {
        let found = match self.item.clone() {
            Some(name) => {
                heap.named(&name).and_then(|item| Some((item, self.numbers(&item.header)?)))
            }
            None => heap.items.iter().find_map(|item| {
                let numbers = Numbers::of(&item.header).filter(|n| n.many > 1)?;
                Some((item, numbers))
            }),
        };
        let Some((item, numbers)) = found else { return false };
        if self.item.is_none() {
            // From here on this one.
            self.item = Some(item.name.to_string());
        }
        let bytes = item.bytes.as_slice();
        let many = numbers.many.min(bytes.len() / numbers.bytes.max(1));
        let line = &mut self.cells[self.next * self.bins..][..self.bins];
        for (bin, cell) in line.iter_mut().enumerate() {
            let from = bin * many / self.bins;
            let to = ((bin + 1) * many / self.bins).max(from + 1).min(many);
            let step = (to.saturating_sub(from)).div_ceil(SAMPLES).max(1);
            let (mut sum, mut n) = (0.0, 0u32);
            for at in (from..to).step_by(step) {
                sum += numbers.value(&bytes[at * numbers.bytes..][..numbers.bytes]);
                n += 1;
            }
            *cell = if n > 0 { (sum / f64::from(n)) as f32 } else { f32::NAN };
        }
        self.next = (self.next + 1) % self.lines;
        true
    }

    /// Bits of the cells as doubles, the newest line first.
    pub fn show(&self, out: &mut Vec<u64>) {
        out.clear();
        for n in 1..=self.lines {
            let line = (self.next + self.lines - n) % self.lines;
            let cells = &self.cells[line * self.bins..][..self.bins];
            out.extend(cells.iter().map(|&cell| f64::from(cell).to_bits()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_core::heaps::{ItemProduct, SharedBytes};

    fn heap(number: u64, header: &str, bytes: Vec<u8>) -> Arc<HeapProduct> {
        let item = ItemProduct {
            id: 0x1000,
            name: "power".into(),
            description: "".into(),
            header: header.into(),
            bytes: SharedBytes::of(bytes),
        };
        Arc::new(HeapProduct {
            number,
            items: vec![item],
            complete: true,
            ..HeapProduct::default()
        })
    }

    fn of(header: &str, bytes: Vec<u8>) -> Vec<f64> {
        let mut lines = WaterfallLines::new(&Waterfall { item: None, bins: 4, lines: 2 });
        assert_eq!(lines.take(&[heap(1, header, bytes)]), (1, 0));
        let mut out = Vec::new();
        lines.show(&mut out);
        assert!(f64::from_bits(out[4]).is_nan(), "the second line is not there yet");
        out[..4].iter().map(|bits| f64::from_bits(*bits)).collect()
    }

    #[test]
    fn values_of_every_type_are_read_and_neighbours_averaged() {
        let dict = |descr: &str, n: usize| {
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({n},)}}")
        };
        let eight: Vec<u8> = (0..8).collect();
        assert_eq!(of(&dict("|u1", 8), eight), [0.5, 2.5, 4.5, 6.5]);
        let big: Vec<u8> = [-1i16, 2, -3, 4].iter().flat_map(|v| v.to_be_bytes()).collect();
        assert_eq!(of(&dict(">i2", 4), big), [-1.0, 2.0, -3.0, 4.0]);
        let floats: Vec<u8> =
            [0.5f32, 1.5, 2.5, 3.5].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(of(&dict("<f4", 4), floats), [0.5, 1.5, 2.5, 3.5]);
        let pairs: Vec<u8> = [3f32, 4.0, 0.0, 1.0, 0.0, 0.0, 6.0, 8.0]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        assert_eq!(of(&dict("<c8", 4), pairs), [5.0, 1.0, 0.0, 10.0]);
        // Fewer elements than cells.
        assert_eq!(of(&dict("|u1", 2), vec![7, 9]), [7.0, 7.0, 9.0, 9.0]);
    }

    #[test]
    fn the_newest_line_is_the_first_and_memory_is_fixed() {
        let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (4,)}";
        let mut lines =
            WaterfallLines::new(&Waterfall { item: Some("power".into()), bins: 4, lines: 3 });
        let heaps: Vec<_> = (0..200).map(|n| heap(n, header, vec![n as u8; 4])).collect();
        assert_eq!(lines.take(&heaps), (200, 0));
        let mut out = Vec::new();
        lines.show(&mut out);
        let firsts: Vec<f64> = out.iter().step_by(4).map(|bits| f64::from_bits(*bits)).collect();
        assert_eq!(firsts, [199.0, 198.0, 197.0]);
        let text = heap(1, "{'descr': '|S4', 'fortran_order': False, 'shape': ()}", vec![0; 4]);
        assert_eq!(lines.take(&[text]), (0, 1));
        assert_eq!(lines.cells(), 12);
    }
}
