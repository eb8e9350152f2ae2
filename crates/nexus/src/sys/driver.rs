//! HDF5's own file driver, except for large rows that the caller writes itself.
//!
//! HDF5 writes from the calling thread and through the page cache, which is slower than the disk: a copy into new pages
//! each time. So HDF5 still manages the file and the place of its rows, and only the last step is taken from it: while
//! [`lay`] runs, a write directly from the caller's memory is recorded with its place in the file, and not done. The
//! caller does it. HDF5 writes everything else as usual, including what it has copied first.
//!
//! The driver is a copy of `sec2` with another function for writing. Its structure is that of HDF5 1.14, which is built
//! with this crate; for another version or driver no copy is made, and HDF5 writes everything itself. Source: HDF5
//! 1.14.6, `H5FDdevelop.h` (version 1 of `H5FD_class_t`), `H5FDsec2.c`.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;

use hdf5_metno::plist::file_access::FileAccess;
use hdf5_metno_sys::h5::{H5get_libversion, haddr_t, herr_t};
use hdf5_metno_sys::h5f::H5F_ACC_RDONLY;
use hdf5_metno_sys::h5fd::{H5FD_t, H5FDclose, H5FDopen, H5FDregister};
use hdf5_metno_sys::h5i::hid_t;

/// Smallest write that is taken from HDF5, bytes; what HDF5 collects in memory first is at most as large.
pub const LEAST: usize = 64 << 10;

/// Version of `H5FD_class_t` that is known here.
const VERSION: c_uint = 1;
/// Number of the driver: 256 to 511 are for private use.
const VALUE: c_int = 411;
/// `H5FD_MEM_DRAW`: values of datasets.
const VALUES: c_int = 3;

type Write =
    unsafe extern "C" fn(*mut H5FD_t, c_int, hid_t, haddr_t, usize, *const c_void) -> herr_t;

/// `H5FD_class_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Class {
    version: c_uint,
    value: c_int,
    name: *const c_char,
    maxaddr: haddr_t,
    fc_degree: c_int,
    terminate: *const c_void,
    /// sb_size to read: 20 functions and 2 sizes.
    to_read: [*const c_void; 22],
    write: Option<Write>,
    /// read_vector to ctl.
    to_ctl: [*const c_void; 10],
    fl_map: [c_int; 7],
}

/// A write that is left to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DivertedWrite {
    /// Place in the file.
    pub at: u64,
    /// First byte within the caller's memory.
    pub from: usize,
    /// Bytes.
    pub bytes: usize,
}

/// Memory whose writes are noted.
struct Noted {
    memory: usize,
    bytes: usize,
    parts: Vec<DivertedWrite>,
}

thread_local! {
    /// Set while [`lay`] runs on this thread.
    static NOTED: RefCell<Option<Noted>> = const { RefCell::new(None) };
}

/// `sec2`'s function for writing.
static BELOW: OnceLock<Write> = OnceLock::new();
static DRIVER: OnceLock<Option<hid_t>> = OnceLock::new();

/// True if the write is left to who called [`lay`].
fn note(kind: c_int, at: haddr_t, bytes: usize, from: usize) -> bool {
    NOTED.with_borrow_mut(|noted| {
        let Some(noted) = noted else { return false };
        let Some(from) = from.checked_sub(noted.memory) else { return false };
        let within = from.checked_add(bytes).is_some_and(|end| end <= noted.bytes);
        let ours = kind == VALUES && bytes >= LEAST && within;
        if ours {
            noted.parts.push(DivertedWrite { at, from, bytes });
        }
        ours
    })
}

/// The driver's function for writing.
unsafe extern "C" fn write(
    file: *mut H5FD_t,
    kind: c_int,
    transfer: hid_t,
    at: haddr_t,
    bytes: usize,
    from: *const c_void,
) -> herr_t {
    if note(kind, at, bytes, from.addr()) {
        return 0;
    }
    match BELOW.get() {
        // SAFETY: what the library gave goes on as it came; the file was opened by the driver that this function is of.
        Some(below) => unsafe { below(file, kind, transfer, at, bytes, from) },
        None => -1,
    }
}

/// Runs `write_rows`, which has HDF5 write `memory` to a file of this driver, and gives the writes that were left out.
pub(super) fn lay<T, E>(
    memory: &[u8],
    write_rows: impl FnOnce() -> Result<T, E>,
) -> Result<Vec<DivertedWrite>, E> {
    let noted = Noted { memory: memory.as_ptr().addr(), bytes: memory.len(), parts: Vec::new() };
    NOTED.set(Some(noted));
    let outcome = write_rows();
    let noted = NOTED.take();
    outcome.map(|_| noted.map_or_else(Vec::new, |noted| noted.parts))
}

/// The driver's number; `None` if the library's own cannot be copied. The library's lock must be held.
pub(super) fn driver() -> Option<hid_t> {
    *DRIVER.get_or_init(|| {
        let mut class = sec2()?;
        BELOW.set(class.write?).ok()?;
        class.value = VALUE;
        class.name = c"fullcount".as_ptr();
        // The driver below ends by itself.
        class.terminate = ptr::null();
        class.write = Some(write);
        // SAFETY: the class has the version that the library expects and functions that belong together; the library
        // copies it, and the name is a constant.
        let id = unsafe { H5FDregister(ptr::from_ref(&class).cast()) };
        (id >= 0).then_some(id)
    })
}

/// The library's own driver.
fn sec2() -> Option<Class> {
    let (mut major, mut minor, mut release) = (0, 0, 0);
    // SAFETY: three numbers to be filled.
    let said = unsafe { H5get_libversion(&mut major, &mut minor, &mut release) };
    if said < 0 || (major, minor) != (1, 14) {
        return None;
    }
    let list = FileAccess::build().sec2().finish().ok()?;
    // SAFETY: the name ends with NUL; the list is open, and an address that is not set (all ones) is what the function
    // allows.
    let file = unsafe { H5FDopen(c"/dev/null".as_ptr(), H5F_ACC_RDONLY, list.id(), haddr_t::MAX) };
    if file.is_null() {
        return None;
    }
    // SAFETY: an open file of a driver begins with its number and a pointer to its class, which in 1.14 is as above.
    let class = unsafe {
        let class: *const Class = (*file).cls.cast();
        let front = (*class).version == VERSION && !(*class).name.is_null();
        let known = front && CStr::from_ptr((*class).name) == c"sec2";
        known.then(|| *class)
    };
    // SAFETY: opened above and not yet closed.
    unsafe { H5FDclose(file) };
    class
}
