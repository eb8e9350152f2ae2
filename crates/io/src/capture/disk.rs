//! Appends to files at the rate of the disk: pieces of 4 MiB, written by a [`DiskThread`] while the next frames are made.
//!
//! A piece that fills up without a pause bypasses the page cache. Data that must be visible at once goes through it,
//! since the open piece is written again when it has grown.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::disk::{ALIGNED, DirectFile, DiskLoad, DiskThread, WriteBack};

/// Bytes written at once: `dd` wrote 1.6 GB/s in pieces of 1 MiB, 2.2 to 2.9 GB/s in these.
const PIECE: usize = 4 << 20;
/// Pieces: one being filled, one being written, one in between.
const PIECES: usize = 3;

/// Bytes to be written at one place of the file.
#[derive(Debug)]
struct Piece {
    memory: Vec<u8>,
    /// First byte that is aligned.
    start: usize,
    filled: usize,
    /// Of those, written already, and counted as such.
    written: usize,
    counted: usize,
    /// Packets that end in it and are not counted.
    packets: u64,
    /// Place in the file.
    at: u64,
    /// It is the piece in hand, written so far for those who read along.
    in_hand: bool,
}

impl Piece {
    fn new() -> Piece {
        let memory = vec![0xff; PIECE + ALIGNED];
        let start = memory.as_ptr().align_offset(ALIGNED).min(ALIGNED);
        Piece {
            memory,
            start,
            filled: 0,
            written: 0,
            counted: 0,
            packets: 0,
            at: 0,
            in_hand: false,
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.filled]
    }
}

impl DiskLoad for Piece {
    fn write(&mut self, to: &mut DirectFile) -> io::Result<()> {
        let (bytes, at) = (&self.bytes()[self.written..], self.at + self.written as u64);
        // A piece that was not shown to readers begins at a boundary, in memory and in the file.
        match bytes.len() == PIECE {
            true => to.write(bytes, at)?,
            false => to.write_cached(bytes, at)?,
        }
        self.written = self.filled;
        Ok(())
    }
}

/// Files that are appended to, one after the other.
#[derive(Debug)]
pub(super) struct Disk {
    thread: DiskThread<Piece>,
    free: Vec<Piece>,
    /// The piece in hand.
    piece: Option<Piece>,
    /// Bytes of this file so far.
    at: u64,
    /// Bytes and packets written since the last query.
    done: (u64, u64),
}

impl Disk {
    /// # Errors
    /// The system refuses a thread.
    pub(super) fn new() -> io::Result<Disk> {
        let thread = DiskThread::start("capture-disk")?;
        let free = (0..PIECES).map(|_| Piece::new()).collect();
        Ok(Disk { thread, free, piece: None, at: 0, done: (0, 0) })
    }

    /// What comes from now on goes to `file`; the one before must be finished.
    pub(super) fn begin(&mut self, file: File, path: &Path) -> io::Result<()> {
        self.at = 0;
        self.free.extend(self.piece.take());
        self.thread.begin(DirectFile::new(file, path, WriteBack::Windows))?;
        self.wait_for(0)
    }

    /// Takes answers until at most `open` are missing.
    fn wait_for(&mut self, open: usize) -> io::Result<()> {
        let mut outcome = Ok(());
        while self.thread.open() > open
            && let Some(answer) = self.thread.answer(true)
        {
            let mut piece = answer.load;
            if let (Some(piece), Ok(())) = (&mut piece, &answer.outcome) {
                self.done.0 += (piece.written - piece.counted) as u64;
                self.done.1 += std::mem::take(&mut piece.packets);
                piece.counted = piece.written;
            }
            self.free.extend(piece);
            outcome = outcome.and(answer.outcome);
        }
        outcome
    }

    /// Bytes and packets written since this was asked last.
    pub(super) fn done(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.done)
    }

    /// Adds to the open piece; full ones are passed to the thread. `packets` end with the last byte.
    pub(super) fn append(&mut self, mut bytes: &[u8], packets: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut piece = match self.piece.take() {
                Some(piece) => piece,
                None => self.fresh()?,
            };
            let n = bytes.len().min(PIECE - piece.filled);
            let (now, later) = bytes.split_at(n);
            let place = piece.start + piece.filled;
            piece.memory[place..place + n].copy_from_slice(now);
            piece.filled += n;
            self.at += n as u64;
            bytes = later;
            if bytes.is_empty() {
                piece.packets += packets;
            }
            if piece.filled == PIECE {
                self.thread.write(piece)?;
            } else {
                self.piece = Some(piece);
            }
        }
        Ok(())
    }

    fn fresh(&mut self) -> io::Result<Piece> {
        while self.free.is_empty() && self.thread.open() > 0 {
            self.wait_for(self.thread.open() - 1)?;
        }
        let mut piece = self.free.pop().ok_or_else(|| io::Error::other("no piece is left"))?;
        (piece.filled, piece.written, piece.counted) = (0, 0, 0);
        (piece.packets, piece.at, piece.in_hand) = (0, self.at, false);
        Ok(piece)
    }

    /// Readers of the file see all that was appended.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some(mut piece) = self.piece.take_if(|p| p.written < p.filled) else {
            return self.wait_for(0);
        };
        piece.in_hand = true;
        self.thread.write(piece)?;
        let outcome = self.wait_for(0);
        // It came back among the free ones, and is filled further. Its place does not identify it: pieces of an earlier
        // file had the same.
        if let Some(i) = self.free.iter().position(|p| p.in_hand) {
            let mut piece = self.free.swap_remove(i);
            piece.in_hand = false;
            self.piece = Some(piece);
        }
        outcome
    }

    /// All that was appended is on the disk.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        self.thread.sync()?;
        self.wait_for(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A piece that comes back from the disk is the one in hand, not one of the file before at the same place.
    #[test]
    fn a_second_file_holds_its_own_bytes_after_an_early_flush() {
        let dir = tempfile::tempdir().unwrap();
        let mut disk = Disk::new().unwrap();
        for k in 0..3u8 {
            let path = dir.path().join(format!("{k}"));
            disk.begin(File::create(&path).unwrap(), &path).unwrap();
            let mut want = Vec::new();
            for len in [1_000_000, 3_500_000, PIECE, 77] {
                let bytes = vec![k + 1; len];
                disk.append(&bytes, 1).unwrap();
                want.extend(bytes);
                disk.flush().unwrap();
                assert!(std::fs::read(&path).unwrap() == want, "file {k} after {len}");
            }
            disk.finish().unwrap();
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        #[test]
        fn files_hold_what_was_appended_however_it_was_flushed(
            steps in proptest::collection::vec((0usize..5_000_000, 0u8..4), 1..12),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let mut disk = Disk::new().unwrap();
            // More files than there are pieces.
            for (k, name) in ["a", "b", "c", "d", "e"].iter().enumerate() {
                let path = dir.path().join(name);
                disk.begin(File::create(&path).unwrap(), &path).unwrap();
                let (mut want, mut packets) = (Vec::new(), 0);
                for (n, (len, then)) in steps.iter().enumerate() {
                    let bytes: Vec<u8> = (0..*len).map(|i| (i * 7 + n + 31 * k) as u8).collect();
                    disk.append(&bytes, u64::from(!bytes.is_empty())).unwrap();
                    packets += u64::from(!bytes.is_empty());
                    want.extend(bytes);
                    if *then == 0 {
                        disk.flush().unwrap();
                        prop_assert!(std::fs::read(&path).unwrap() == want, "seen at once");
                    }
                }
                disk.finish().unwrap();
                prop_assert_eq!(disk.done(), (want.len() as u64, packets));
                prop_assert!(std::fs::read(&path).unwrap() == want);
            }
        }
    }
}
