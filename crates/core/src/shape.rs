//! The pixels of a map as a file has them: their order in the picture, and the outline of one, which programs that draw a
//! detector need beside its positions.
//!
//! `docs/formats/nexus.md` section 6 requires a shape for geometry: one for all pixels, in `pixel_shape`. A pixel map
//! has only centres, so a pixel extends half-way to its neighbours in the picture: a flat parallelogram, inclined like
//! the rows and columns.

use crate::view::PixelMap;

/// Side of a pixel that has no neighbour, metres.
const ALONE_M: f64 = 0.01;
/// Cells of a picture beyond which neighbours are not looked for (1 GiB of indices).
const MOST_CELLS: usize = 1 << 28;

type Vector = [f64; 3];

/// Corners of a pixel around its centre, metres, one after the other along the edge.
pub fn corners(map: &PixelMap) -> [Vector; 4] {
    let [u, v] = sides(steps(map));
    let corner = |a: f64, b: f64| [0, 1, 2].map(|i| 0.5 * (a * u[i] + b * v[i]));
    [corner(-1.0, -1.0), corner(1.0, -1.0), corner(1.0, 1.0), corner(-1.0, 1.0)]
}

/// From a pixel to its neighbour to the right, and to the one below, as most of them are.
fn steps(map: &PixelMap) -> [Option<Vector>; 2] {
    let (rows, columns) = (map.rows as usize, map.columns as usize);
    let cells = rows.checked_mul(columns).filter(|&cells| cells <= MOST_CELLS);
    let Some(cells) = cells else { return [None; 2] };
    let mut pixel = vec![u32::MAX; cells];
    for (i, &cell) in (0..).zip(&map.cell) {
        if let Some(slot) = pixel.get_mut(cell as usize) {
            *slot = i;
        }
    }
    let mut between: [[Vec<f64>; 3]; 2] = Default::default();
    for (i, &cell) in map.cell.iter().enumerate() {
        let cell = cell as usize;
        let right = (columns > 0 && !(cell + 1).is_multiple_of(columns)).then_some(cell + 1);
        for (all, neighbour) in between.iter_mut().zip([right, Some(cell + columns)]) {
            let other = neighbour.and_then(|at| pixel.get(at)).map(|&other| other as usize);
            let Some(other) = other.filter(|&other| other < map.cell.len()) else { continue };
            for (all, metres) in all.iter_mut().zip([&map.x_m, &map.y_m, &map.z_m]) {
                // A flat panel has no depth.
                let at = |i: usize| metres.get(i).copied().unwrap_or(0.0);
                all.push(at(other) - at(i));
            }
        }
    }
    between.map(|[mut x, mut y, mut z]| Some([median(&mut x)?, median(&mut y)?, median(&mut z)?]))
}

fn median(all: &mut [f64]) -> Option<f64> {
    let middle = all.len() / 2;
    (!all.is_empty()).then(|| *all.select_nth_unstable_by(middle, f64::total_cmp).1)
}

fn length(v: Vector) -> f64 {
    v.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// Two sides that span an area: a missing one is as long as the other, or as a single pixel.
fn sides(steps: [Option<Vector>; 2]) -> [Vector; 2] {
    let long = |v: Option<Vector>| v.map(length).filter(|&metres| metres > 0.0);
    let [right, below] = steps.map(long);
    let width = right.or(below).unwrap_or(ALONE_M);
    let height = below.or(right).unwrap_or(ALONE_M);
    let flat = [[width, 0.0, 0.0], [0.0, height, 0.0]];
    let [u, v] = [steps[0].unwrap_or(flat[0]), steps[1].unwrap_or(flat[1])];
    let cross = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
    // Nearly parallel ones, such as columns at different depths, would draw nothing.
    if length(cross) > 1e-3 * length(u) * length(v) { [u, v] } else { flat }
}

/// Shape of `detector_number`, and the index of the pixel at each of its places: as the picture if every cell of it has
/// exactly one pixel, else in one row.
pub fn arranged(map: &PixelMap) -> (Vec<usize>, Vec<usize>) {
    let (rows, columns) = (map.rows as usize, map.columns as usize);
    match rectangle(&map.cell, rows, columns) {
        Some(order) => (vec![rows, columns], order),
        None => (vec![map.cell.len()], (0..map.cell.len()).collect()),
    }
}

/// Index of the pixel in each cell, row by row, if every cell of the picture has exactly one pixel.
fn rectangle(cell: &[u32], rows: usize, columns: usize) -> Option<Vec<usize>> {
    if rows.checked_mul(columns)? != cell.len() {
        return None;
    }
    let mut order = vec![usize::MAX; cell.len()];
    for (i, &c) in cell.iter().enumerate() {
        let slot = order.get_mut(c as usize)?;
        if *slot != usize::MAX {
            return None;
        }
        *slot = i;
    }
    Some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_rectangle_is_ordered_by_cell_and_anything_else_is_not_one() {
        assert_eq!(rectangle(&[3, 2, 1, 0], 2, 2), Some(vec![3, 2, 1, 0]));
        assert_eq!(rectangle(&[1, 2, 0], 1, 3), Some(vec![2, 0, 1]));
        assert_eq!(rectangle(&[0, 1, 2], 2, 2), None, "a cell without pixel");
        assert_eq!(rectangle(&[0, 0, 2, 3], 2, 2), None, "two pixels in a cell");
        assert_eq!(rectangle(&[0, 1, 2, 4], 2, 2), None, "outside the picture");
    }

    fn near(found: [Vector; 4], wanted: [Vector; 4]) {
        let pairs = found.as_flattened().iter().zip(wanted.as_flattened());
        assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
    }

    /// Columns 4 mm apart, rows 6 mm, y up; each column `deeper` metres deeper than the one before.
    fn map(columns: u32, rows: u32, deeper: f64) -> PixelMap {
        let n = columns * rows;
        PixelMap {
            columns,
            rows,
            cell: (0..n).collect(),
            x_m: (0..n).map(|i| 0.004 * f64::from(i % columns)).collect(),
            y_m: (0..n).map(|i| -0.006 * f64::from(i / columns)).collect(),
            z_m: (0..n).map(|i| deeper * f64::from(i % columns)).collect(),
            ..PixelMap::default()
        }
    }

    #[test]
    fn a_pixel_reaches_half_way_to_its_neighbours() {
        let mut flat = map(4, 3, 0.0);
        let wanted = [
            [-0.002, 0.003, 0.0],
            [0.002, 0.003, 0.0],
            [0.002, -0.003, 0.0],
            [-0.002, -0.003, 0.0],
        ];
        near(corners(&flat), wanted);
        // Another order of the pixels, a gap, and no depth change nothing.
        flat.z_m.clear();
        for column in [&mut flat.x_m, &mut flat.y_m] {
            column.reverse();
            column.remove(5);
        }
        flat.cell.reverse();
        flat.cell.remove(5);
        near(corners(&flat), wanted);
    }

    #[test]
    fn inclined_columns_make_inclined_pixels() {
        let [a, b, c, d] = corners(&map(4, 3, 0.003));
        near(
            [a, b, c, d],
            [
                [-0.002, 0.003, -0.0015],
                [0.002, 0.003, 0.0015],
                [0.002, -0.003, 0.0015],
                [-0.002, -0.003, -0.0015],
            ],
        );
    }

    #[test]
    fn without_neighbours_a_pixel_is_a_square() {
        let square = |side: f64| {
            let h = side / 2.0;
            [[-h, -h, 0.0], [h, -h, 0.0], [h, h, 0.0], [-h, h, 0.0]]
        };
        near(corners(&map(1, 1, 0.0)), square(0.01));
        near(corners(&PixelMap::default()), square(0.01));
        // A single row is as high as it is wide.
        near(corners(&map(4, 1, 0.0)), square(0.004));
        // Two pixels at one place, and columns at different depths in the direction of rows.
        let mut one = map(2, 1, 0.0);
        one.x_m = vec![0.0; 2];
        near(corners(&one), square(0.01));
        let mut behind = map(3, 3, 0.0);
        behind.x_m = vec![0.0; 9];
        behind.y_m = (0..9).map(|i| 0.005 * f64::from(i % 3) + 0.02 * f64::from(i / 3)).collect();
        assert_eq!(corners(&behind)[1], [0.0025, -0.01, 0.0]);
    }
}
