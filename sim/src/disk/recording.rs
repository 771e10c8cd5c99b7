//! What each operation on a disk found there, kept while a universe goes on without trouble: so
//! that everybody can be let die at each of them afterwards, without running it again. Never opens
//! a file, and never decides what goes wrong.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::file::File;
use super::names::{Inode, Names};
use super::shared::{SharedMemory, Words};
use super::{Disk, Operation, Process, Trouble};
use crate::wide::Wide;

/// Operations that are kept at most.
const MOMENTS_MAX: usize = 200_000;

/// Files and their names.
#[derive(Clone, Debug)]
struct Files {
    files: BTreeMap<Inode, File>,
    names: Names,
}

/// Shared memory, by file.
type Memory = Vec<(Inode, Rc<Words>)>;

/// The half of a write that may be done when somebody dies of it.
#[derive(Debug)]
struct Half {
    inode: Inode,
    content: Vec<u8>,
    offset: usize,
}

/// An operation, and what it found.
#[derive(Debug)]
pub(crate) struct Moment {
    /// The operation.
    pub(crate) operation: Operation,
    /// Commits that were acknowledged before it.
    pub(crate) acknowledged: usize,
    /// A commit was begun, and not answered.
    pub(crate) committing: bool,
    files: Rc<Files>,
    /// What others than its process map.
    memory: Rc<Memory>,
    half: Option<Half>,
}

/// How everybody, or one process, dies at an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Death {
    /// A power cut, or the end of a process.
    pub(crate) trouble: Trouble,
    /// The choices that say what of the unsynced a power cut leaves.
    pub(crate) way: [u16; 2],
    /// The operation is a write, and half of it was done.
    pub(crate) halfway: bool,
}

/// What was kept of a universe.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    /// Every operation, in order.
    pub(crate) moments: Vec<Moment>,
    /// How the files stood at the beginning, and after each commit that was acknowledged.
    acknowledged: Vec<Rc<Files>>,
    committing: bool,
    goes_on: bool,
    /// The files as they stand, until they change.
    latest: Option<Rc<Files>>,
    powersafe_overwrite: bool,
}

impl Disk {
    /// Keeps what each operation finds, from now on.
    pub(crate) fn record(&mut self) {
        let powersafe_overwrite = self.powersafe_overwrite;
        let recording = Recording { goes_on: true, powersafe_overwrite, ..Recording::default() };
        self.recording = Some(Box::new(recording));
        self.acknowledge();
    }

    /// Keeps nothing any more.
    pub(crate) fn stop_recording(&mut self) {
        if let Some(recording) = &mut self.recording {
            recording.goes_on = false;
        }
    }

    /// What was kept, if anything was to be.
    pub(crate) fn take_recording(&mut self) -> Option<Recording> {
        self.recording.take().map(|recording| *recording)
    }

    /// A commit begins.
    pub(crate) fn begin_commit(&mut self) {
        if let Some(recording) = &mut self.recording {
            recording.committing = true;
        }
    }

    /// A commit is over.
    pub(crate) fn end_commit(&mut self, acknowledged: bool) {
        if let Some(recording) = &mut self.recording {
            recording.committing = false;
            if acknowledged && recording.goes_on {
                self.acknowledge();
            }
        }
    }

    fn acknowledge(&mut self) {
        let Some(mut recording) = self.recording.take() else { return };
        let files = recording.files(self);
        recording.acknowledged.push(files);
        self.recording = Some(recording);
    }

    /// Somebody begins an operation.
    pub(super) fn note(&mut self, process: Process, operation: Operation) {
        let Some(mut recording) = self.recording.take() else { return };
        recording.note(self, process, operation);
        self.recording = Some(recording);
    }

    /// The write that has begun, half done.
    pub(super) fn note_half(&mut self, inode: Inode, content: &[u8], offset: usize) {
        let recording = self.recording.as_mut().filter(|recording| recording.goes_on);
        let moment = recording.and_then(|recording| recording.moments.last_mut());
        // A temporary file is written to without a moment of its own.
        let new =
            |moment: &&mut Moment| moment.operation == Operation::Write && moment.half.is_none();
        if let Some(moment) = moment.filter(new) {
            moment.half = Some(Half { inode, content: content.to_vec(), offset });
        }
    }

    /// The same files, names and shared memory, which nobody has open yet.
    pub(crate) fn copy(&self) -> Disk {
        let copied =
            |(inode, shared): (&Inode, &SharedMemory)| (*inode, SharedMemory::of(&shared.words()));
        Disk {
            files: self.files.clone(),
            names: self.names.clone(),
            shared: self.shared.iter().map(copied).collect(),
            next_inode: self.next_inode,
            powersafe_overwrite: self.powersafe_overwrite,
            ..Disk::default()
        }
    }

    /// Tells disks apart by what whoever opens a file there finds.
    pub(crate) fn fingerprint(&self) -> u128 {
        let mut hash = Wide::new();
        for (name, inode) in self.names.iter() {
            name.bytes().for_each(|byte| hash.mix(byte.into()));
            hash.wide(self.files[&inode].content().hash());
            if let Some(shared) = self.shared.get(&inode) {
                hash.wide(shared.words().hash);
            }
        }
        hash.both()
    }

    /// True if a power cut may leave something else than is there.
    pub(crate) fn is_unsynced(&self) -> bool {
        self.names.is_unsynced() || self.files.values().any(File::is_unsynced)
    }

    /// The hash of the pages of a database file whose log is written back and gone; why there is
    /// none otherwise.
    pub(crate) fn pages(&self, name: &str) -> Result<u128, String> {
        if let Some((log, _)) = self.names.iter().find(|(other, _)| *other != name) {
            return Err(format!("{log} is left"));
        }
        let inode = self.names.get(name).ok_or("the file is gone")?;
        let content = self.files[&inode].content();
        let mut header = [0; 32];
        if content.len() < header.len() {
            return Err("the file has no header".to_owned());
        }
        content.read(&mut header, 0);
        let page = usize::from(u16::from_be_bytes([header[16], header[17]]));
        // 65 536 does not fit.
        let page = if page == 1 { 65_536 } else { page };
        let pages = u32::from_be_bytes([header[28], header[29], header[30], header[31]]) as usize;
        if pages * page > content.len() {
            return Err(format!("{pages} pages of {page} bytes in {} bytes", content.len()));
        }
        let mut content = content.clone();
        // What lies behind the last page is none.
        content.resize(pages * page);
        Ok(content.hash())
    }
}

impl Recording {
    /// True if it was every operation.
    pub(crate) fn is_whole(&self) -> bool {
        self.moments.len() < MOMENTS_MAX
    }

    /// How often a commit was acknowledged, and once more for the beginning.
    pub(crate) fn states(&self) -> usize {
        self.acknowledged.len()
    }

    /// The disk after so many acknowledged commits, once everybody has left it; nothing is lost.
    pub(crate) fn after_commits(&self, count: usize) -> Disk {
        self.disk(&self.acknowledged[count], &Memory::new())
    }

    /// The disk as a death at that operation leaves it. It is that of a machine that has come back,
    /// or of which one process has died; others may have shared memory mapped there, and do
    /// nothing.
    pub(crate) fn after_death(&self, moment: &Moment, death: Death) -> Disk {
        let mut disk = match death.trouble {
            Trouble::ProcessCrash => self.disk(&moment.files, &moment.memory),
            _ => self.disk(&moment.files, &Memory::new()),
        };
        if let (true, Some(half)) = (death.halfway, &moment.half)
            && let Some(file) = disk.files.get_mut(&half.inode)
        {
            file.write(&half.content, half.offset);
        }
        if death.trouble == Trouble::PowerCut {
            disk.lose_power(death.way);
        }
        disk
    }

    fn note(&mut self, disk: &Disk, process: Process, operation: Operation) {
        if self.goes_on && !disk.hushed && Trouble::ProcessCrash.strikes(operation) {
            let files = self.files(disk);
            let memory = self.memory(disk, process);
            self.moments.push(Moment {
                operation,
                acknowledged: self.acknowledged.len() - 1,
                committing: self.committing,
                files,
                memory,
                half: None,
            });
            self.goes_on = self.is_whole();
        }
        if Trouble::PowerCut.strikes(operation) {
            self.latest = None;
        }
    }

    fn disk(&self, files: &Files, memory: &Memory) -> Disk {
        let Files { files, names } = files.clone();
        let shared = memory.iter().map(|(inode, words)| (*inode, SharedMemory::of(words)));
        Disk {
            next_inode: files.keys().last().copied().unwrap_or_default(),
            files,
            names,
            shared: shared.collect(),
            powersafe_overwrite: self.powersafe_overwrite,
            ..Disk::default()
        }
    }

    fn files(&mut self, disk: &Disk) -> Rc<Files> {
        let made = || {
            let named = disk.names.inodes();
            let files = disk.files.iter().filter(|(inode, _)| named.contains(inode));
            let files = files.map(|(inode, file)| (*inode, file.clone())).collect();
            Rc::new(Files { files, names: disk.names.clone() })
        };
        Rc::clone(self.latest.get_or_insert_with(made))
    }

    /// The shared memory that outlives a process, one for many operations where it stays the same.
    fn memory(&self, disk: &Disk, process: Process) -> Rc<Memory> {
        let outlives = |inode: Inode| {
            let mut handles = disk.handles.values();
            handles.any(|handle| {
                handle.inode == inode
                    && handle.process != process
                    && handle.mapped.is_some()
                    && disk.is_alive(handle.process)
            })
        };
        let left = || disk.shared.iter().filter(|(inode, _)| outlives(**inode));
        let same = |before: &&Moment| {
            let mut pairs = left().zip(before.memory.iter());
            left().count() == before.memory.len()
                && pairs
                    .all(|((inode, shared), (known, words))| inode == known && shared.holds(words))
        };
        match self.moments.last().filter(same) {
            Some(before) => Rc::clone(&before.memory),
            None => Rc::new(left().map(|(inode, shared)| (*inode, shared.words())).collect()),
        }
    }
}

impl Disk {
    /// The power goes, and comes back, by those choices.
    pub(crate) fn lose_power(&mut self, way: [u16; 2]) {
        let mut choices = way.into_iter();
        self.cut_power(&mut |_| choices.next().unwrap_or_default());
    }
}
