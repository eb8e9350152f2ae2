//! Growing `.npy` files in a folder: `NAME.npy.part` while they are written, `NAME.npy` when they are complete.
//!
//! A header has room for any number of rows and is written again at each flush, behind the rows: `numpy.load` reads a file that is
//! being written, or that a killed run left, as far as that. Files are made new, never through a link. Refuses a folder that is
//! there and not empty, or is a link. Sources: NumPy, "NPY format" version 1.0; `docs/contracts.md`, "Files".

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fullcount_core::heaps::ItemProduct;
use fullcount_spead::describe::NumpyHeader;

use super::sink::{HeapRow, HeapWriter};
use crate::newfile;

/// Rows wait in memory up to this many bytes.
const BUFFER: usize = 1 << 20;
/// Places for the number of rows: any u64.
const DIGITS: usize = 20;

/// Table of heaps: [`HeapRow`] without gaps.
const HEAPS: &str = "[('number', '<u8'), ('time_ns', '<i8'), ('length', '<i8'), ('received', '<u8'), ('missing', '<u8'), ('complete', '|b1')]";
/// Row of the table, and a range of its payload that is missing.
const MISSING: &str = "[('heap', '<u8'), ('start', '<u8'), ('end', '<u8')]";

/// One file.
#[derive(Debug)]
struct NpyFile {
    file: File,
    part: PathBuf,
    path: PathBuf,
    descr: String,
    row: Vec<usize>,
    room: usize,
    rows: u64,
    /// Bytes in the file.
    written: u64,
    buffer: Vec<u8>,
}

fn words(path: &Path, doing: &str) -> impl FnOnce(io::Error) -> String {
    let path = path.display().to_string();
    let doing = doing.to_owned();
    move |e| format!("{path}: cannot {doing}: {e}")
}

impl NpyFile {
    fn make(folder: &Path, name: &str, descr: String, row: &[usize]) -> Result<NpyFile, String> {
        let path = folder.join(format!("{name}.npy"));
        let part = folder.join(format!("{name}.npy.part"));
        let file = newfile::create(&part).map_err(words(&part, "make the file"))?;
        let mut made = NpyFile {
            file,
            part,
            path,
            descr,
            row: row.to_vec(),
            room: 0,
            rows: 0,
            written: 0,
            buffer: Vec::new(),
        };
        made.room = (10 + made.dictionary().len() + DIGITS + 1).next_multiple_of(64);
        if made.room - 10 > usize::from(u16::MAX) {
            return Err(format!("{}: the type is too long for a file", made.path.display()));
        }
        made.written = made.room as u64;
        made.header()?;
        Ok(made)
    }

    fn dictionary(&self) -> String {
        let rest: Vec<String> = self.row.iter().map(|n| format!(" {n}")).collect();
        let shape = format!("({},{})", self.rows, rest.join(","));
        format!("{{'descr': {}, 'fortran_order': False, 'shape': {shape}, }}", self.descr)
    }

    fn header(&mut self) -> Result<(), String> {
        let mut header = b"\x93NUMPY\x01\x00".to_vec();
        header.extend(((self.room - 10) as u16).to_le_bytes());
        header.extend(self.dictionary().bytes());
        header.resize(self.room - 1, b' ');
        header.push(b'\n');
        self.file.write_all_at(&header, 0).map_err(words(&self.part, "write the header"))
    }

    fn empty(&mut self) -> Result<(), String> {
        let wrote = self.file.write_all_at(&self.buffer, self.written);
        wrote.map_err(words(&self.part, "write rows"))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.empty()?;
        }
        if bytes.len() > BUFFER {
            let wrote = self.file.write_all_at(bytes, self.written);
            wrote.map_err(words(&self.part, "write rows"))?;
            self.written += bytes.len() as u64;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        self.rows += 1;
        Ok(())
    }

    /// Rows first, then their number.
    fn flush(&mut self) -> Result<(), String> {
        self.empty()?;
        self.header()
    }

    fn close(&mut self) -> Result<u64, String> {
        self.flush()?;
        self.file.sync_data().map_err(words(&self.part, "bring the rows to the disk"))?;
        let moved = newfile::move_to_free(&self.part, &self.path);
        moved.map_err(words(&self.part, "give the finished file its name"))?;
        Ok(self.written)
    }
}

/// An array: its values, and the rows of the table that they belong to.
#[derive(Debug)]
struct NpyArray {
    values: NpyFile,
    heaps: NpyFile,
}

/// `.npy` files in a folder.
#[derive(Debug)]
pub struct NpyWriter {
    folder: PathBuf,
    heaps: NpyFile,
    missing: NpyFile,
    arrays: Vec<NpyArray>,
}

impl NpyWriter {
    /// Makes the folder, unless it is there and empty, and the tables in it.
    ///
    /// # Errors
    /// Something is there, or the system's words.
    pub fn create(folder: &Path) -> Result<NpyWriter, String> {
        NpyWriter::free(folder)?;
        match fs::create_dir(folder) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::AlreadyExists => NpyWriter::free(folder)?,
            Err(e) => return Err(words(folder, "make the folder")(e)),
        }
        Ok(NpyWriter {
            heaps: NpyFile::make(folder, "heaps", HEAPS.to_owned(), &[])?,
            missing: NpyFile::make(folder, "missing", MISSING.to_owned(), &[])?,
            folder: folder.to_owned(),
            arrays: Vec::new(),
        })
    }

    /// Nothing is there, or an empty folder.
    fn free(folder: &Path) -> Result<(), String> {
        let shown = folder.display();
        match fs::symlink_metadata(folder) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) => Err(words(folder, "look at the folder")(e)),
            Ok(found) if found.is_symlink() => Err(format!(
                "{shown}: a link is there, which is not followed; name the folder itself"
            )),
            Ok(found) if !found.is_dir() => Err(format!("{shown}: this is no folder")),
            Ok(_) => {
                let mut files = fs::read_dir(folder).map_err(words(folder, "read the folder"))?;
                match files.next() {
                    None => Ok(()),
                    Some(_) => Err(format!("{shown}: the folder is not empty; choose another one")),
                }
            }
        }
    }

    fn files(&mut self) -> impl Iterator<Item = &mut NpyFile> {
        let arrays = self.arrays.iter_mut().flat_map(|a| [&mut a.values, &mut a.heaps]);
        // The table last: a row of it means that all of the heap is there.
        arrays.chain([&mut self.missing, &mut self.heaps])
    }
}

impl HeapWriter for NpyWriter {
    fn begin(&mut self, name: &str, _: &ItemProduct, of: &NumpyHeader) -> Result<(), String> {
        let values = NpyFile::make(&self.folder, name, of.of.to_string(), &of.shape)?;
        let heaps = NpyFile::make(&self.folder, &format!("{name}.heap"), "'<u8'".to_owned(), &[])?;
        self.arrays.push(NpyArray { values, heaps });
        Ok(())
    }

    fn append(
        &mut self,
        array: usize,
        heap: u64,
        of: &NumpyHeader,
        bytes: &[u8],
    ) -> Result<u64, String> {
        let (Some(array), Some(bytes)) = (self.arrays.get_mut(array), of.c_order(bytes)) else {
            return Err(format!("{}: an array that is none", self.folder.display()));
        };
        array.values.append(&bytes)?;
        array.heaps.append(&heap.to_le_bytes())?;
        Ok(bytes.len() as u64 + 8)
    }

    fn heap(&mut self, row: HeapRow, missing: &[Range<u64>]) -> Result<(), String> {
        let at = self.heaps.rows;
        for gap in missing {
            let row = [at, gap.start, gap.end].map(u64::to_le_bytes).concat();
            self.missing.append(&row)?;
        }
        let HeapRow { number, time_ns, length, received, missing, complete } = row;
        let mut bytes = number.to_le_bytes().to_vec();
        bytes.extend(time_ns.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend(received.to_le_bytes());
        bytes.extend(missing.to_le_bytes());
        bytes.push(u8::from(complete));
        self.heaps.append(&bytes)
    }

    fn flush(&mut self) -> Result<(), String> {
        self.files().try_for_each(NpyFile::flush)
    }

    fn close(&mut self) -> Result<(String, u64), String> {
        let mut bytes = 0;
        for file in self.files() {
            bytes += file.close()?;
        }
        Ok((self.folder.display().to_string(), bytes))
    }
}
