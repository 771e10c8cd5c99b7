//! The one directory: which names there are, and which of them are on the device. Never holds the
//! content of a file.

use std::collections::{BTreeMap, BTreeSet};

use super::fate::Fates;

/// Number of a file, whatever it is called.
pub(super) type Inode = u32;

/// The names of files.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    cached: BTreeMap<String, Inode>,
    durable: BTreeMap<String, Inode>,
}

impl Names {
    pub(super) fn get(&self, name: &str) -> Option<Inode> {
        self.cached.get(name).copied()
    }

    pub(super) fn insert(&mut self, name: &str, inode: Inode) {
        self.cached.insert(name.to_owned(), inode);
    }

    /// False if there is none.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        self.cached.remove(name).is_some()
    }

    /// Writes the directory to the device.
    pub(super) fn sync(&mut self) {
        if self.durable != self.cached {
            self.durable.clone_from(&self.cached);
        }
    }

    /// True if a power cut may leave other names.
    pub(super) fn is_unsynced(&self) -> bool {
        self.durable != self.cached
    }

    /// The files that have a name, or had one when the directory was last synced.
    pub(super) fn inodes(&self) -> BTreeSet<Inode> {
        self.cached.values().chain(self.durable.values()).copied().collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, Inode)> {
        self.cached.iter().map(|(name, inode)| (name.as_str(), *inode))
    }

    /// The power goes, and comes back. Each name by itself is as it was synced, or as it was last.
    /// Returns how many changes are gone.
    pub(super) fn cut(&mut self, fates: &mut Fates) -> u32 {
        let mut lost = 0;
        let names: BTreeSet<String> =
            self.cached.keys().chain(self.durable.keys()).cloned().collect();
        for name in names {
            let last = self.cached.get(&name).copied();
            if last == self.durable.get(&name).copied() {
                continue;
            }
            if !fates.arrives() {
                lost += 1;
                continue;
            }
            match last {
                Some(inode) => self.durable.insert(name, inode),
                None => self.durable.remove(&name),
            };
        }
        self.cached.clone_from(&self.durable);
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_not_synced_is_lost_and_one_that_was_removed_comes_back() {
        let mut names = Names::default();
        names.insert("a", 1);
        names.sync();
        names.insert("b", 2);
        assert!(names.remove("a"));
        assert!(!names.remove("a"));
        let mut kept = names.clone();
        assert_eq!(names.cut(&mut Fates::chosen(&mut |_| 0, true)), 2);
        assert_eq!((names.get("a"), names.get("b")), (Some(1), None));
        assert_eq!(kept.cut(&mut Fates::chosen(&mut |_| 1, true)), 0);
        assert_eq!((kept.get("a"), kept.get("b")), (None, Some(2)));
    }
}
