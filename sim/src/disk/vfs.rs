//! The disk as SQLite sees it: a VFS (<https://www.sqlite.org/vfs.html>). Translates calls and
//! nothing else; the only unsafe code of the simulator.
//!
//! Its devices promise nothing, or what SQLite takes for granted on Linux, that a write leaves the
//! bytes beside it alone: with any other promise SQLite leaves syncs out. Its
//! randomness, its clock and its sleep are fixed. SQLite asks its default VFS for the seed of the
//! numbers that it salts WALs with; these are compared for equality only: nothing depends on them.

#![expect(
    unsafe_code,
    reason = "SQLite calls through C function pointers and hands out C pointers"
)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Once;

use rusqlite::ffi;

use super::locks::{Holder, SHARED_LOCKS};
use super::sectors::SECTOR;
use super::shared::Missing;
use super::{Disk, Done, Level, NOBODY, Opening, Process, Refused, while_it_lasts};

/// The name under which SQLite knows it.
pub(crate) const NAME: &str = "sluicegate-disk";
/// The same with its end marked.
const NAME_C: &CStr = c"sluicegate-disk";
/// The longest path.
const PATH_MAX: c_int = 128;
/// The Julian day of 2026-01-01, and the same in milliseconds.
const JULIAN_DAY: f64 = 2_461_041.5;
const JULIAN_MS: i64 = 212_633_985_600_000;

/// An open file as SQLite holds it: its methods, as SQLite wants them first, and our number.
#[repr(C)]
struct Open {
    base: ffi::sqlite3_file,
    holder: Holder,
}

/// Makes the VFS known to SQLite; once a process.
pub(crate) fn register() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SQLite counts what it allocates under one lock for all threads, unless it is told not to
        // before anything else; where it is too late for that it refuses, and counts.
        // SAFETY: the option takes one integer.
        let _ = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0) };
        let size = c_int::try_from(size_of::<Open>()).expect("a handle is small");
        let vfs = ffi::sqlite3_vfs {
            iVersion: 2,
            szOsFile: size,
            mxPathname: PATH_MAX,
            pNext: std::ptr::null_mut(),
            zName: NAME_C.as_ptr(),
            pAppData: std::ptr::null_mut(),
            xOpen: Some(open),
            xDelete: Some(delete),
            xAccess: Some(access),
            xFullPathname: Some(full_pathname),
            xDlOpen: None,
            xDlError: None,
            xDlSym: None,
            xDlClose: None,
            xRandomness: Some(randomness),
            xSleep: Some(sleep),
            xCurrentTime: Some(current_time),
            xGetLastError: None,
            xCurrentTimeInt64: Some(current_time_ms),
            xSetSystemCall: None,
            xGetSystemCall: None,
            xNextSystemCall: None,
        };
        // SAFETY: the structure lives for ever, its name too, and its functions keep the contract
        // of `sqlite3_vfs`. Registering is thread-safe.
        let code = unsafe { ffi::sqlite3_vfs_register(Box::leak(Box::new(vfs)), 0) };
        assert_eq!(code, ffi::SQLITE_OK, "SQLite takes the VFS");
    });
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// The number of an open file.
///
/// # Safety
/// `file` is one that `open` has filled.
unsafe fn holder(file: *mut ffi::sqlite3_file) -> Holder {
    // SAFETY: SQLite passes what `open` has filled, of the size that the VFS asked for.
    unsafe { (*file.cast::<Open>()).holder }
}

/// The process that a path names, and the name in the directory.
///
/// # Safety
/// `path` is a C string that nobody changes meanwhile.
unsafe fn parse<'a>(path: *const c_char) -> Option<(Process, &'a str)> {
    // SAFETY: as the caller promises.
    let path = unsafe { CStr::from_ptr(path) }.to_str().ok()?;
    let (process, name) = path.split_once('/')?;
    Some((process.parse().ok()?, name))
}

/// The answer to SQLite; `io` is its code for an operation of this sort that failed.
fn answer(done: Option<Done>, io: c_int) -> c_int {
    match done {
        Some(Ok(())) => ffi::SQLITE_OK,
        Some(Err(Refused::Full)) => ffi::SQLITE_FULL,
        Some(Err(Refused::Busy)) => ffi::SQLITE_BUSY,
        Some(Err(Refused::Io | Refused::Missing)) | None => io,
    }
}

fn on_disk<T>(f: impl FnOnce(&mut Disk) -> Done<T>) -> Option<Done<T>> {
    while_it_lasts(f)
}

fn offset(number: ffi::sqlite3_int64) -> usize {
    usize::try_from(number).expect("SQLite asks for no negative offset")
}

fn length(number: c_int) -> usize {
    usize::try_from(number).expect("SQLite asks for no negative length")
}

fn level(number: c_int) -> Level {
    match number {
        ffi::SQLITE_LOCK_NONE => Level::Unlocked,
        ffi::SQLITE_LOCK_SHARED => Level::Shared,
        ffi::SQLITE_LOCK_RESERVED => Level::Reserved,
        ffi::SQLITE_LOCK_PENDING => Level::Pending,
        _ => Level::Exclusive,
    }
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    let has = |flag: c_int| flags & flag != 0;
    let how = Opening {
        creates: has(ffi::SQLITE_OPEN_CREATE),
        exclusive: has(ffi::SQLITE_OPEN_EXCLUSIVE),
        journal: has(ffi::SQLITE_OPEN_WAL) || has(ffi::SQLITE_OPEN_MAIN_JOURNAL),
    };
    let open = file.cast::<Open>();
    // SAFETY: SQLite passes memory of the size that the VFS asked for. Without methods it does not
    // close what was not opened.
    unsafe { (*open).base.pMethods = std::ptr::null() };
    let opened = match path.is_null() {
        true => on_disk(|disk| disk.open(NOBODY, None, how)),
        false => {
            // SAFETY: SQLite passes a C string.
            let Some((process, name)) = (unsafe { parse(path) }) else {
                return ffi::SQLITE_CANTOPEN;
            };
            on_disk(|disk| disk.open(process, Some(name), how))
        }
    };
    let Some(Ok(holder)) = opened else {
        return ffi::SQLITE_CANTOPEN;
    };
    // SAFETY: as above; `flags_out` may be null.
    unsafe {
        (*open).holder = holder;
        (*open).base.pMethods = &raw const METHODS;
        if !flags_out.is_null() {
            *flags_out = flags;
        }
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn delete(
    _: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    sync_directory: c_int,
) -> c_int {
    // SAFETY: SQLite passes a C string.
    let Some((process, name)) = (unsafe { parse(path) }) else { return ffi::SQLITE_IOERR_DELETE };
    match on_disk(|disk| disk.delete(process, name, sync_directory != 0)) {
        Some(Err(Refused::Missing)) => ffi::SQLITE_IOERR_DELETE_NOENT,
        done => answer(done, ffi::SQLITE_IOERR_DELETE),
    }
}

unsafe extern "C" fn access(
    _: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    _: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes a C string.
    let Some((process, name)) = (unsafe { parse(path) }) else { return ffi::SQLITE_IOERR_ACCESS };
    let Some(Ok(exists)) = on_disk(|disk| disk.exists(process, name)) else {
        return ffi::SQLITE_IOERR_ACCESS;
    };
    // SAFETY: SQLite passes a place for the answer.
    unsafe { *out = c_int::from(exists) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn full_pathname(
    _: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    size: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes a C string, and `out` has room for `size` bytes.
    unsafe {
        let bytes = CStr::from_ptr(path).to_bytes_with_nul();
        if bytes.len() > length(size) {
            return ffi::SQLITE_CANTOPEN;
        }
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), out, bytes.len());
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn randomness(_: *mut ffi::sqlite3_vfs, size: c_int, out: *mut c_char) -> c_int {
    // SAFETY: `out` has room for `size` bytes.
    unsafe { std::ptr::write_bytes(out, 0x5A, length(size)) };
    size
}

unsafe extern "C" fn sleep(_: *mut ffi::sqlite3_vfs, us: c_int) -> c_int {
    us
}

unsafe extern "C" fn current_time(_: *mut ffi::sqlite3_vfs, out: *mut f64) -> c_int {
    // SAFETY: SQLite passes a place for the answer.
    unsafe { *out = JULIAN_DAY };
    ffi::SQLITE_OK
}

unsafe extern "C" fn current_time_ms(
    _: *mut ffi::sqlite3_vfs,
    out: *mut ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite passes a place for the answer.
    unsafe { *out = JULIAN_MS };
    ffi::SQLITE_OK
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite passes a file that `open` has filled.
    let holder = unsafe { holder(file) };
    while_it_lasts(|disk| disk.close(holder));
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    out: *mut c_void,
    size: c_int,
    from: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite passes a file that `open` has filled, and `out` has room for `size` bytes.
    let (holder, buffer) =
        unsafe { (holder(file), std::slice::from_raw_parts_mut(out.cast::<u8>(), length(size))) };
    match on_disk(|disk| disk.read(holder, buffer, offset(from))) {
        Some(Ok(true)) => ffi::SQLITE_OK,
        Some(Ok(false)) => ffi::SQLITE_IOERR_SHORT_READ,
        _ => ffi::SQLITE_IOERR_READ,
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    size: c_int,
    to: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite passes a file that `open` has filled, and `from` holds `size` bytes.
    let (holder, content) =
        unsafe { (holder(file), std::slice::from_raw_parts(from.cast::<u8>(), length(size))) };
    answer(on_disk(|disk| disk.write(holder, content, offset(to))), ffi::SQLITE_IOERR_WRITE)
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: ffi::sqlite3_int64) -> c_int {
    // SAFETY: SQLite passes a file that `open` has filled.
    let holder = unsafe { holder(file) };
    answer(on_disk(|disk| disk.truncate(holder, offset(size))), ffi::SQLITE_IOERR_TRUNCATE)
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    // SAFETY: SQLite passes a file that `open` has filled.
    let holder = unsafe { holder(file) };
    answer(on_disk(|disk| disk.sync(holder)), ffi::SQLITE_IOERR_FSYNC)
}

unsafe extern "C" fn file_size(
    file: *mut ffi::sqlite3_file,
    out: *mut ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite passes a file that `open` has filled.
    let holder = unsafe { holder(file) };
    let Some(Ok(size)) = on_disk(|disk| disk.size(holder)) else {
        return ffi::SQLITE_IOERR_FSTAT;
    };
    // SAFETY: SQLite passes a place for the answer.
    unsafe { *out = i64::try_from(size).expect("a file fits into memory") };
    ffi::SQLITE_OK
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, to: c_int) -> c_int {
    // SAFETY: SQLite passes a file that `open` has filled.
    let holder = unsafe { holder(file) };
    answer(on_disk(|disk| disk.lock(holder, level(to))), ffi::SQLITE_IOERR_LOCK)
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, to: c_int) -> c_int {
    // SAFETY: SQLite passes a file that `open` has filled.
    let holder = unsafe { holder(file) };
    answer(on_disk(|disk| disk.unlock(holder, level(to))), ffi::SQLITE_IOERR_UNLOCK)
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: SQLite passes a file that `open` has filled.
    let holder = unsafe { holder(file) };
    let Some(Ok(reserved)) = on_disk(|disk| disk.is_reserved(holder)) else {
        return ffi::SQLITE_IOERR_CHECKRESERVEDLOCK;
    };
    // SAFETY: SQLite passes a place for the answer.
    unsafe { *out = c_int::from(reserved) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_control(_: *mut ffi::sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_: *mut ffi::sqlite3_file) -> c_int {
    c_int::try_from(SECTOR).expect("a sector is small")
}

unsafe extern "C" fn device_characteristics(_: *mut ffi::sqlite3_file) -> c_int {
    match while_it_lasts(|disk| disk.powersafe_overwrite) {
        Some(true) => ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE,
        _ => 0,
    }
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite passes a file that `open` has filled.
    let holder = unsafe { holder(file) };
    let missing = if extend != 0 { Missing::Made } else { Missing::LeftOut };
    let mapped = on_disk(|disk| disk.map(holder, length(region), length(size), missing));
    let (code, address) = match mapped {
        Some(Ok(Some(region))) => (ffi::SQLITE_OK, region.as_ptr().cast_mut().cast::<c_void>()),
        Some(Ok(None)) => (ffi::SQLITE_OK, std::ptr::null_mut()),
        Some(Err(Refused::Full)) => (ffi::SQLITE_IOERR_SHMSIZE, std::ptr::null_mut()),
        _ => (ffi::SQLITE_IOERR_SHMMAP, std::ptr::null_mut()),
    };
    // SAFETY: SQLite passes a place for the address. It points to cells, which may be written
    // through it, and the handle keeps the region until it is unmapped or closed.
    unsafe { *out = address };
    code
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: SQLite passes a file that `open` has filled.
    let holder = unsafe { holder(file) };
    let (first, end) = (length(first), length(first) + length(count));
    assert!(end <= SHARED_LOCKS, "SQLite asks for {SHARED_LOCKS} locks");
    let slots = (first..end).fold(0_u8, |slots, slot| slots | 1 << slot);
    let done = on_disk(|disk| match flags & ffi::SQLITE_SHM_LOCK != 0 {
        true => disk.lock_shared(holder, slots, flags & ffi::SQLITE_SHM_EXCLUSIVE != 0),
        false => disk.unlock_shared(holder, slots),
    });
    answer(done, ffi::SQLITE_IOERR_SHMLOCK)
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    // SAFETY: SQLite passes a file that `open` has filled.
    let holder = unsafe { holder(file) };
    while_it_lasts(|disk| disk.barrier(holder));
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    // SAFETY: SQLite passes a file that `open` has filled.
    let holder = unsafe { holder(file) };
    while_it_lasts(|disk| disk.unmap(holder));
    ffi::SQLITE_OK
}
