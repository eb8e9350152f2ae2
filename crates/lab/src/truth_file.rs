//! Truth files: what a simulator made, row by row, as text.
//!
//! CSV with one header line; a row for every neutron, dark count, coincidence, inconsistent readout, broken
//! packet and pulse whose packet was handed out. The file is locked while it is written. Refuses: a file that is there and may
//! not be replaced, one that another process writes, files that cannot be written; the first failure
//! ends the writing and is told at the end. Source: `docs/simulators.md`.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fullcount_sim::made::{Made, Overlap, Witness};

/// The columns.
pub const HEADER: &str = "number,packet,module,time_ticks,time_ns,pixel,kind,clean,overlap";

/// More columns for detectors whose events have a place finer than a pixel; empty where nothing converted.
pub const SPOT_HEADER: &str = ",x_strips,y_strips,run_x_strips,run_y_strips,depth_mm";

/// A truth file that could not be written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum TruthError {
    #[error("{path}: the file exists; replace it with --overwrite, or choose another path")]
    Exists { path: PathBuf },
    #[error("{path}: another process is writing it; wait for it to end or choose another path")]
    InUse { path: PathBuf },
    #[error("{path}: {cause}: check that the folder exists and has room")]
    Write { path: PathBuf, cause: io::Error },
}

struct Open {
    spots: bool,
    out: BufWriter<File>,
    rows: u64,
    failed: Option<std::io::Error>,
}

impl Open {
    /// The columns behind the others.
    fn spot(&self, made: &Made) -> String {
        match made.spot.map(|spot| (spot.strips(), spot.depth_mm())) {
            _ if !self.spots => String::new(),
            Some(([x, y, run_x, run_y], depth)) => {
                format!(",{x:.3},{y:.3},{run_x:.3},{run_y:.3},{depth:.3}")
            }
            None => ",,,,,".to_owned(),
        }
    }

    fn row(&mut self, made: &Made, tick: (u32, u32)) {
        if self.failed.is_some() {
            return;
        }
        let (num, den) = (i64::from(tick.0), i64::from(tick.1));
        let ns = (made.time * num).div_euclid(den);
        let clean = if made.overlap == Overlap::None { "yes" } else { "no" };
        let Made { packet, module, time, pixel, .. } = *made;
        let (kind, overlap) = (made.kind.name(), made.overlap.name());
        let number = self.rows;
        let written = writeln!(
            self.out,
            "{number},{packet},{module},{time},{ns},{pixel},{kind},{clean},{overlap}{}",
            self.spot(made)
        );
        match written {
            Ok(()) => self.rows += 1,
            Err(e) => self.failed = Some(e),
        }
    }
}

/// A truth file under way.
pub struct TruthFile {
    path: PathBuf,
    open: Arc<Mutex<Open>>,
}

impl TruthFile {
    /// Makes the file. `spots`: with the columns of [`SPOT_HEADER`]; `overwrite`: an older one is replaced. A device or
    /// pipe is written to either way: nothing in it is replaced.
    ///
    /// # Errors
    /// A file is there, another process writes it, or what the file system says.
    pub fn create(path: &Path, spots: bool, overwrite: bool) -> Result<TruthFile, TruthError> {
        let refuse = |cause| TruthError::Write { path: path.to_owned(), cause };
        let file = open(path, overwrite)?;
        let mut out = BufWriter::with_capacity(1 << 16, file);
        writeln!(out, "{HEADER}{}", if spots { SPOT_HEADER } else { "" }).map_err(refuse)?;
        let open = Arc::new(Mutex::new(Open { spots, out, rows: 0, failed: None }));
        Ok(TruthFile { path: path.to_owned(), open })
    }

    /// What the simulator tells its rows to; a tick is `tick.0`/`tick.1` ns.
    pub fn witness(&self, tick: (u32, u32)) -> Witness {
        let open = self.open.clone();
        Box::new(move |made| {
            open.lock().unwrap_or_else(PoisonError::into_inner).row(made, tick);
        })
    }

    /// Everything is on its way to the disk; gives the number of rows.
    ///
    /// # Errors
    /// The first thing that could not be written.
    pub fn finish(self) -> Result<u64, TruthError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let done = match open.failed.take() {
            Some(cause) => Err(cause),
            None => open.out.flush(),
        };
        done.map_err(|cause| TruthError::Write { path: self.path.clone(), cause })?;
        Ok(open.rows)
    }
}

/// The file, empty and locked.
fn open(path: &Path, overwrite: bool) -> Result<File, TruthError> {
    let refuse = |cause| TruthError::Write { path: path.to_owned(), cause };
    let stream = fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir());
    let mut how = File::options();
    how.write(true).create(!stream).truncate(false).create_new(!overwrite && !stream);
    let file = how.open(path).map_err(|cause| match cause.kind() {
        ErrorKind::AlreadyExists => TruthError::Exists { path: path.to_owned() },
        _ => refuse(cause),
    })?;
    if !stream {
        // A file system without locks keeps nobody apart.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(TruthError::InUse { path: path.to_owned() });
        }
        file.set_len(0).map_err(refuse)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_sim::made::{Cause, Spot};

    #[test]
    fn rows_have_ticks_and_nanoseconds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("truth.csv");
        let file = TruthFile::create(&path, false, false).unwrap();
        let mut witness = file.witness((125, 2));
        let (kind, overlap) = (Cause::Neutron, Overlap::None);
        let made =
            Made { packet: 4, module: 1, time: 16_000_001, pixel: 77, kind, overlap, spot: None };
        witness(&made);
        witness(&Made { overlap: Overlap::Noise, ..made });
        witness(&Made { kind: Cause::Dark, pixel: 0, ..made });
        drop(witness);
        assert_eq!(file.finish().unwrap(), 3);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], HEADER);
        assert_eq!(lines[1], "0,4,1,16000001,1000000062,77,neutron,yes,none");
        assert_eq!(lines[2], "1,4,1,16000001,1000000062,77,neutron,no,noise");
        assert_eq!(lines[3], "2,4,1,16000001,1000000062,0,dark,yes,none");
    }

    #[test]
    fn places_finer_than_a_pixel_stand_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("truth.csv");
        let file = TruthFile::create(&path, true, false).unwrap();
        let mut witness = file.witness((1, 1));
        let (kind, overlap) = (Cause::Neutron, Overlap::None);
        let spot = Some(Spot::of([12.25, 640.0, -3.5, 0.1]).deep(7.25));
        let made = Made { packet: 4, module: 1, time: 9, pixel: 77, kind, overlap, spot };
        witness(&made);
        witness(&Made { spot: None, kind: Cause::Bad, pixel: 0, ..made });
        drop(witness);
        assert_eq!(file.finish().unwrap(), 2);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], format!("{HEADER}{SPOT_HEADER}"));
        assert_eq!(lines[1], "0,4,1,9,9,77,neutron,yes,none,12.250,640.000,-3.500,0.100,7.250");
        assert_eq!(lines[2], "1,4,1,9,9,0,bad,yes,none,,,,,");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let Err(e) = TruthFile::create(&folder.path().join("no/truth.csv"), false, false) else {
            panic!("no such folder");
        };
        assert!(e.to_string().contains("no/truth.csv: "), "{e}");
        // Always full; only on Linux.
        if Path::new("/dev/full").exists() {
            let file = TruthFile::create(Path::new("/dev/full"), false, false).unwrap();
            assert!(file.finish().unwrap_err().to_string().starts_with("/dev/full: "));
        }
    }

    #[test]
    fn a_file_that_is_there_is_replaced_only_if_it_may_and_nobody_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("truth.csv");
        let first = TruthFile::create(&path, false, false).unwrap();
        let again = |overwrite| TruthFile::create(&path, false, overwrite).err().unwrap();
        assert!(matches!(again(false), TruthError::Exists { .. }));
        assert!(matches!(again(true), TruthError::InUse { .. }));
        first.finish().unwrap();
        fs::write(&path, "an hour's neutrons\nand more").unwrap();
        let e = again(false).to_string();
        assert!(e.contains("truth.csv") && e.contains("--overwrite"), "{e}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "an hour's neutrons\nand more");
        TruthFile::create(&path, false, true).unwrap().finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{HEADER}\n"));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("nothing", &link).unwrap();
        let e = TruthFile::create(&link, false, false).err().unwrap();
        assert!(matches!(e, TruthError::Exists { .. }), "{e}");
    }
}
