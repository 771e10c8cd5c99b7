//! The disk of a simulated machine, in memory: files with what the page cache holds and what is on
//! the device, names, locks and shared memory, and the processes that use them. Thread-local, like
//! the world. `vfs.rs` hands it to SQLite. Never decides when something goes wrong.
//!
//! It does what Linux does under SQLite's unix VFS. What is written stands in the page cache; a
//! sync of a file puts its content and length on the device, and a sync of the directory the names.
//! SQLite syncs the directory along with the first sync of a journal or a WAL that it has opened,
//! and after a removal if it is told to. A power cut leaves of each sector that was not synced what
//! was there before, what was written, a part of it, or neither. A process that dies leaves the
//! page cache as it is; its locks go with it, and the shared memory with the last who maps it.

mod content;
mod fate;
mod file;
mod locks;
mod names;
mod recording;
mod sectors;
mod shared;
mod trouble;
pub(crate) mod vfs;

#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use content::Content;
use fate::Fates;
use file::File;
use locks::{FileLocks, Holder};
use names::{Inode, Names};
use shared::{Missing, Region, SharedMemory};

pub(crate) use file::Damage;
pub(crate) use locks::Level;
pub(crate) use recording::{Death, Moment, Recording};
use trouble::Strike;
pub(crate) use trouble::{Armed, Operation, Trouble};

/// A process of the machine. Paths begin with its number, so that the disk knows who opens.
pub(crate) type Process = u32;

/// Why an operation is not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// It failed, or whoever asks for it is dead.
    Io,
    /// There is no room.
    Full,
    /// Somebody has a lock.
    Busy,
    /// There is no such file.
    Missing,
}

type Done<T = ()> = Result<T, Refused>;

/// Who has temporary files open: nobody else ever sees them, and no trouble strikes them.
const NOBODY: Process = 0;

/// A file that a process has open.
#[derive(Debug)]
struct Handle {
    process: Process,
    inode: Inode,
    /// The next sync also syncs the directory.
    syncs_directory: bool,
    /// Regions that it maps, so that their memory stays for as long as it is open.
    mapped: Option<Vec<Region>>,
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Opening {
    /// It is made if it is not there.
    pub(crate) creates: bool,
    /// It must not be there.
    pub(crate) exclusive: bool,
    /// It is a journal or a WAL: its first sync is to sync the directory too.
    pub(crate) journal: bool,
}

/// What the files of a disk hold, without what is open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image(Vec<(String, Content)>);

/// The disk of one machine.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    files: BTreeMap<Inode, File>,
    names: Names,
    handles: BTreeMap<Holder, Handle>,
    locks: BTreeMap<Inode, FileLocks>,
    shared: BTreeMap<Inode, SharedMemory>,
    alive: BTreeSet<Process>,
    processes: Process,
    next_inode: Inode,
    /// What goes wrong next.
    pub(crate) armed: Option<Armed>,
    /// What went wrong since it was last asked for, and for which process.
    struck: Option<(Trouble, Process)>,
    /// Nothing goes wrong, and nothing is counted: somebody looks who is not there.
    hushed: bool,
    /// A write leaves the bytes beside it in its sector alone.
    pub(crate) powersafe_overwrite: bool,
    /// Operations since the disk was made.
    pub(crate) operations: u64,
    /// What is noted of each operation, if anything is.
    recording: Option<Box<Recording>>,
    /// Syncs do nothing: a device that lies, for the tests of the disk itself.
    pub(crate) syncs_ignored: bool,
}

thread_local! {
    static DISK: RefCell<Disk> = RefCell::default();
    /// The number of the next open file: no two disks of a thread have one in common.
    static HANDLES: Cell<Holder> = const { Cell::new(1) };
}

/// Runs a closure on this thread's disk.
pub(crate) fn disk<T>(f: impl FnOnce(&mut Disk) -> T) -> T {
    DISK.with_borrow_mut(f)
}

/// Puts another disk in the place of this thread's, which is returned with all that is open on it.
/// Nobody may use what is open on it before it is back.
pub(crate) fn exchange(other: Disk) -> Disk {
    DISK.replace(other)
}

/// Runs something that looks without being there: nothing goes wrong and nothing is counted.
pub(crate) fn hushed<T>(look: impl FnOnce() -> T) -> T {
    let before = disk(|disk| std::mem::replace(&mut disk.hushed, true));
    let seen = look();
    disk(|disk| disk.hushed = before);
    seen
}

/// The same for SQLite, which may still close files while the thread ends.
fn while_it_lasts<T>(f: impl FnOnce(&mut Disk) -> T) -> Option<T> {
    DISK.try_with(|disk| f(&mut disk.borrow_mut())).ok()
}

impl Disk {
    /// Makes the disk anew with these files, all of them synced. Every process is dead; what it has
    /// still open leads nowhere.
    pub(crate) fn format(&mut self, image: &Image) {
        self.kill_everyone();
        self.files.clear();
        self.names = Names::default();
        self.armed = None;
        self.struck = None;
        for (name, content) in &image.0 {
            let inode = self.add(File::synced(content.clone()));
            self.names.insert(name, inode);
        }
        self.names.sync();
    }

    /// What the files hold, as whoever reads them sees it.
    pub(crate) fn image(&self) -> Image {
        let file =
            |(name, inode): (&str, Inode)| (name.to_owned(), self.files[&inode].content().clone());
        Image(self.names.iter().map(file).collect())
    }

    /// A process begins.
    pub(crate) fn begin_process(&mut self) -> Process {
        self.processes += 1;
        self.alive.insert(self.processes);
        self.processes
    }

    /// True if it has begun and not died.
    pub(crate) fn is_alive(&self, process: Process) -> bool {
        self.alive.contains(&process)
    }

    /// `kill -9`: nothing that the process still does has any effect. Its files are to be closed
    /// and then [`Disk::bury`] called before anybody else goes on.
    pub(crate) fn kill(&mut self, process: Process) {
        if !self.alive.remove(&process) {
            return;
        }
        let mut mapped = BTreeSet::new();
        for (holder, handle) in &self.handles {
            if handle.process == process {
                if let Some(locks) = self.locks.get_mut(&handle.inode) {
                    locks.lower(*holder, Level::Unlocked);
                }
                if let Some(shared) = self.shared.get_mut(&handle.inode) {
                    shared.locks.give_back(*holder, u8::MAX);
                    mapped.insert(handle.inode);
                }
            }
        }
        for inode in mapped {
            match self.is_mapped(inode) {
                true => self.shared.get_mut(&inode).expect("it was found").freeze(),
                false => drop(self.shared.remove(&inode)),
            }
        }
    }

    /// Every process dies at once, and with them the shared memory.
    pub(crate) fn kill_everyone(&mut self) {
        self.alive.clear();
        self.locks.clear();
        self.shared.clear();
    }

    /// Undoes what a dead process did to shared memory while its files were closed.
    pub(crate) fn bury(&mut self) {
        self.shared.values_mut().for_each(SharedMemory::thaw);
    }

    /// The power goes, and comes back: every process dies, and what was not synced is lost, kept or
    /// torn by the choices of a tape.
    pub(crate) fn cut_power(&mut self, choose: &mut dyn FnMut(u16) -> u16) -> Damage {
        self.kill_everyone();
        let mut damage = Damage::default();
        let mut fates = Fates::chosen(choose, !self.powersafe_overwrite);
        for file in self.files.values_mut() {
            file.cut(&mut fates, &mut damage);
        }
        damage.names = self.names.cut(&mut fates);
        let named = self.names.inodes();
        self.files.retain(|inode, _| named.contains(inode));
        damage
    }

    /// True if nobody has a file open.
    pub(crate) fn is_closed(&self) -> bool {
        self.handles.is_empty()
    }

    /// What began to go wrong since it was last asked for, and for which process.
    pub(crate) fn take_struck(&mut self) -> Option<(Trouble, Process)> {
        self.struck.take()
    }

    fn add(&mut self, file: File) -> Inode {
        self.next_inode += 1;
        self.files.insert(self.next_inode, file);
        self.next_inode
    }

    fn is_mapped(&self, inode: Inode) -> bool {
        let maps = |handle: &Handle| {
            handle.inode == inode && handle.mapped.is_some() && self.is_alive(handle.process)
        };
        self.handles.values().any(maps)
    }

    /// Whoever is dead, and whoever trouble strikes, is refused; the latter with what strikes.
    fn enter(
        &mut self,
        process: Process,
        operation: Operation,
    ) -> Result<(), (Refused, Option<Strike>)> {
        if process == NOBODY {
            return Ok(());
        }
        if !self.is_alive(process) {
            return Err((Refused::Io, None));
        }
        self.note(process, operation);
        if self.hushed {
            return Ok(());
        }
        self.operations += 1;
        let Some(strike) = Armed::strike(&mut self.armed, operation) else { return Ok(()) };
        if strike.first {
            self.struck = Some((strike.trouble, process));
        }
        match strike.trouble {
            Trouble::PowerCut => self.alive.clear(),
            Trouble::ProcessCrash => self.kill(process),
            Trouble::IoError | Trouble::DiskFull | Trouble::FsyncLies => {}
        }
        let refused = match strike.trouble {
            Trouble::DiskFull => Refused::Full,
            _ => Refused::Io,
        };
        Err((refused, Some(strike)))
    }

    fn allow(&mut self, process: Process, operation: Operation) -> Done {
        self.enter(process, operation).map_err(|(refused, _)| refused)
    }

    fn allow_handle(&mut self, holder: Holder, operation: Operation) -> Done<Inode> {
        let Some(handle) = self.handles.get(&holder) else { return Err(Refused::Io) };
        let (process, inode) = (handle.process, handle.inode);
        self.allow(process, operation)?;
        Ok(inode)
    }

    fn file(&mut self, inode: Inode) -> Done<&mut File> {
        self.files.get_mut(&inode).ok_or(Refused::Io)
    }
}

/// What SQLite asks of the disk.
impl Disk {
    /// Opens the file of that name, or one without a name.
    fn open(&mut self, process: Process, name: Option<&str>, how: Opening) -> Done<Holder> {
        let found = name.and_then(|name| self.names.get(name));
        let operation = if found.is_some() { Operation::Open } else { Operation::Create };
        self.allow(process, operation)?;
        let inode = match found {
            Some(_) if how.exclusive => return Err(Refused::Missing),
            Some(inode) => inode,
            None if !how.creates => return Err(Refused::Missing),
            None => self.add(File::default()),
        };
        if let (Some(name), None) = (name, found) {
            self.names.insert(name, inode);
        }
        let syncs_directory = how.creates && how.journal;
        let handle = Handle { process, inode, syncs_directory, mapped: None };
        let holder = HANDLES.replace(HANDLES.get() + 1);
        self.handles.insert(holder, handle);
        Ok(holder)
    }

    /// Closes a file; its locks go. What no name leads to goes with the last who has it open.
    fn close(&mut self, holder: Holder) {
        self.unmap(holder);
        let Some(handle) = self.handles.remove(&holder) else { return };
        if let Some(locks) = self.locks.get_mut(&handle.inode) {
            locks.lower(holder, Level::Unlocked);
        }
        let open = self.handles.values().any(|other| other.inode == handle.inode);
        if !open && !self.names.inodes().contains(&handle.inode) {
            self.files.remove(&handle.inode);
            self.locks.remove(&handle.inode);
        }
    }

    fn delete(&mut self, process: Process, name: &str, syncs_directory: bool) -> Done {
        self.allow(process, Operation::Delete)?;
        if !self.names.remove(name) {
            return Err(Refused::Missing);
        }
        if syncs_directory && !self.syncs_ignored {
            self.names.sync();
        }
        Ok(())
    }

    fn exists(&mut self, process: Process, name: &str) -> Done<bool> {
        self.allow(process, Operation::Access)?;
        Ok(self.names.get(name).is_some())
    }

    /// False if the file ended before the buffer.
    fn read(&mut self, holder: Holder, buffer: &mut [u8], offset: usize) -> Done<bool> {
        let inode = self.allow_handle(holder, Operation::Read)?;
        Ok(self.file(inode)?.read(buffer, offset))
    }

    fn write(&mut self, holder: Holder, content: &[u8], offset: usize) -> Done {
        let Some(handle) = self.handles.get(&holder) else { return Err(Refused::Io) };
        let (process, inode) = (handle.process, handle.inode);
        let entered = self.enter(process, Operation::Write);
        if let Err((refused, strike)) = entered {
            if strike.is_some_and(|strike| strike.halfway) {
                self.file(inode)?.write(&content[..content.len() / 2], offset);
            }
            return Err(refused);
        }
        self.note_half(inode, &content[..content.len() / 2], offset);
        self.file(inode)?.write(content, offset);
        Ok(())
    }

    fn truncate(&mut self, holder: Holder, length: usize) -> Done {
        let inode = self.allow_handle(holder, Operation::Truncate)?;
        self.file(inode)?.truncate(length);
        Ok(())
    }

    fn sync(&mut self, holder: Holder) -> Done {
        let Some(handle) = self.handles.get_mut(&holder) else { return Err(Refused::Io) };
        let (process, inode) = (handle.process, handle.inode);
        if let Err((refused, strike)) = self.enter(process, Operation::Sync) {
            if strike.is_some_and(|strike| strike.trouble == Trouble::FsyncLies) {
                self.file(inode)?.drop_dirty();
            }
            return Err(refused);
        }
        if self.syncs_ignored {
            return Ok(());
        }
        self.file(inode)?.sync();
        let handle = self.handles.get_mut(&holder).expect("it was found");
        if std::mem::take(&mut handle.syncs_directory) {
            self.names.sync();
        }
        Ok(())
    }

    fn size(&mut self, holder: Holder) -> Done<usize> {
        let inode = self.allow_handle(holder, Operation::Size)?;
        Ok(self.file(inode)?.content().len())
    }

    fn lock(&mut self, holder: Holder, level: Level) -> Done {
        let inode = self.allow_handle(holder, Operation::Lock)?;
        let granted = self.locks.entry(inode).or_default().raise(holder, level);
        granted.then_some(()).ok_or(Refused::Busy)
    }

    fn unlock(&mut self, holder: Holder, level: Level) -> Done {
        let inode = self.allow_handle(holder, Operation::Unlock)?;
        self.locks.entry(inode).or_default().lower(holder, level);
        Ok(())
    }

    fn is_reserved(&mut self, holder: Holder) -> Done<bool> {
        let inode = self.allow_handle(holder, Operation::Lock)?;
        Ok(self.locks.get(&inode).is_some_and(FileLocks::is_reserved))
    }

    /// The region of the shared memory of that number and size, if it is there or made.
    fn map(
        &mut self,
        holder: Holder,
        number: usize,
        size: usize,
        missing: Missing,
    ) -> Done<Option<Region>> {
        let inode = self.allow_handle(holder, Operation::Map)?;
        let memory = self.shared.entry(inode).or_default();
        let region = memory.region(number, size, missing);
        let handle = self.handles.get_mut(&holder).expect("it was found");
        handle.mapped.get_or_insert_default().extend(region.clone());
        Ok(region)
    }

    fn lock_shared(&mut self, holder: Holder, slots: u8, alone: bool) -> Done {
        let inode = self.allow_handle(holder, Operation::LockShared)?;
        let Some(memory) = self.shared.get_mut(&inode) else { return Err(Refused::Io) };
        let granted = match alone {
            true => memory.locks.take_alone(holder, slots),
            false => memory.locks.take_beside(holder, slots),
        };
        granted.then_some(()).ok_or(Refused::Busy)
    }

    fn unlock_shared(&mut self, holder: Holder, slots: u8) -> Done {
        let inode = self.allow_handle(holder, Operation::UnlockShared)?;
        if let Some(memory) = self.shared.get_mut(&inode) {
            memory.locks.give_back(holder, slots);
        }
        Ok(())
    }

    fn barrier(&mut self, holder: Holder) {
        // It has no answer: who dies here finds out at the next operation.
        let _ = self.allow_handle(holder, Operation::Barrier);
    }

    /// Ends a mapping; the memory goes with the last one.
    fn unmap(&mut self, holder: Holder) {
        let Some(handle) = self.handles.get_mut(&holder) else { return };
        if handle.mapped.take().is_none() {
            return;
        }
        let (process, inode) = (handle.process, handle.inode);
        if !self.is_alive(process) {
            return;
        }
        if let Some(memory) = self.shared.get_mut(&inode) {
            memory.locks.give_back(holder, u8::MAX);
        }
        if !self.is_mapped(inode) {
            self.shared.remove(&inode);
        }
    }
}
