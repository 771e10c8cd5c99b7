//! One table: rows in slots that never move, and a sorted index over their keys. Knows nothing of
//! what a row means or of who may lock it.

use super::SessionId;

/// Where a row lies in its table; stays its own until the database is emptied.
pub(super) type Slot = u32;

/// No row.
pub(super) const NO_SLOT: Slot = Slot::MAX;

/// Below so many new rows each is put into the index by itself.
const BULK_ROWS_MIN: usize = 8;

/// What a session has made of a row.
#[derive(Clone, Debug)]
pub(super) enum Dirty<V> {
    /// Its new version.
    Written(V),
    /// It is no more.
    Deleted,
}

impl<K, V> Row<K, V> {
    /// A version of the row, for what all of them agree on.
    pub(super) fn any_version(&self) -> Option<&V> {
        self.committed.as_ref().or(self.dirty.as_ref().and_then(Dirty::version))
    }
}

impl<V> Dirty<V> {
    fn version(&self) -> Option<&V> {
        match self {
            Dirty::Written(value) => Some(value),
            Dirty::Deleted => None,
        }
    }
}

/// A row in two versions: the committed one, and that of the session that owns its lock.
#[derive(Clone, Debug)]
pub(super) struct Row<K, V> {
    pub(super) key: K,
    pub(super) committed: Option<V>,
    /// Exists only while the row has an owner.
    pub(super) dirty: Option<Dirty<V>>,
    /// The session that holds the row lock, or wrote the row; zero for none.
    pub(super) owner: SessionId,
}

/// What an insert finds under its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Nothing; the key's position in the index.
    Free(usize),
    /// A row that no longer exists; its slot is taken over.
    Dead(Slot),
    /// A row that this session sees.
    Visible(Slot),
    /// A row that another session has inserted, updated or deleted and not committed: whether the
    /// key is taken will be known when that session's transaction ends.
    InFlight(Slot),
}

/// What a commit replaced; nothing by an insert.
pub(super) struct Replaced<V> {
    pub(super) before: Option<V>,
}

/// Rows by key.
#[derive(Clone, Debug)]
pub(super) struct Table<K, V> {
    rows: Vec<Row<K, V>>,
    index: Vec<(K, Slot)>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { rows: Vec::new(), index: Vec::new() }
    }
}

/// The slot with that number.
pub(super) fn slot(number: usize) -> Slot {
    Slot::try_from(number).expect("a table holds fewer rows than a slot can number")
}

impl<K: Ord + Clone, V> Table<K, V> {
    /// Forgets every row and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.index.clear();
    }

    /// Number of slots, dead rows included.
    pub(super) fn slots(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn row(&self, slot: Slot) -> &Row<K, V> {
        &self.rows[slot as usize]
    }

    pub(super) fn row_mut(&mut self, slot: Slot) -> &mut Row<K, V> {
        &mut self.rows[slot as usize]
    }

    /// The slot of a key, be its row visible or not.
    pub(super) fn find(&self, key: &K) -> Option<Slot> {
        let position = self.index.binary_search_by(|entry| entry.0.cmp(key)).ok()?;
        Some(self.index[position].1)
    }

    /// The version that a statement of `session` sees: its own, else the committed one.
    pub(super) fn visible(&self, slot: Slot, session: SessionId) -> Option<&V> {
        let row = self.row(slot);
        match &row.dirty {
            Some(dirty) if row.owner == session => dirty.version(),
            _ => row.committed.as_ref(),
        }
    }

    /// The visible version of the row with that key.
    pub(super) fn see(&self, key: &K, session: SessionId) -> Option<&V> {
        self.visible(self.find(key)?, session)
    }

    /// Index entries from `key` on, in key order.
    pub(super) fn entries_from(&self, key: &K) -> &[(K, Slot)] {
        &self.index[self.index.partition_point(|entry| entry.0 < *key)..]
    }

    /// Index entries after `key` in key order; all of them without one.
    pub(super) fn entries_after(&self, key: Option<&K>) -> &[(K, Slot)] {
        let start = key.map_or(0, |key| self.index.partition_point(|entry| entry.0 <= *key));
        &self.index[start..]
    }

    /// Committed rows in key order.
    pub(super) fn committed(&self) -> impl Iterator<Item = &V> {
        self.index.iter().filter_map(|entry| self.row(entry.1).committed.as_ref())
    }

    /// What an insert of that key by `session` meets.
    pub(super) fn place(&self, key: &K, session: SessionId) -> Place {
        let position = match self.index.binary_search_by(|entry| entry.0.cmp(key)) {
            Ok(position) => position,
            Err(position) => return Place::Free(position),
        };
        let slot = self.index[position].1;
        let row = self.row(slot);
        if row.owner != session && row.dirty.is_some() {
            return Place::InFlight(slot);
        }
        if self.visible(slot, session).is_some() {
            return Place::Visible(slot);
        }
        Place::Dead(slot)
    }

    /// Adds a row where [`Table::place`] found room; returns its slot.
    pub(super) fn insert(&mut self, place: Place, key: K, value: V, owner: SessionId) -> Slot {
        match place {
            Place::Free(position) => {
                let slot = slot(self.rows.len());
                self.index.insert(position, (key.clone(), slot));
                self.rows.push(Row {
                    key,
                    committed: None,
                    dirty: Some(Dirty::Written(value)),
                    owner,
                });
                slot
            }
            Place::Dead(slot) => {
                let row = self.row_mut(slot);
                row.dirty = Some(Dirty::Written(value));
                row.owner = owner;
                slot
            }
            Place::Visible(_) | Place::InFlight(_) => unreachable!("the key is taken"),
        }
    }

    /// True if [`Table::push`] and [`Table::index_from`] are the better way to add these keys: they
    /// are many, and none of them was ever used.
    pub(super) fn suits_bulk(&self, mut keys: impl ExactSizeIterator<Item = K>) -> bool {
        keys.len() >= BULK_ROWS_MIN && keys.all(|key| self.find(&key).is_none())
    }

    /// Adds a row that [`Table::index_from`] has to put into the index.
    pub(super) fn push(&mut self, key: K, value: V, owner: SessionId) {
        self.rows.push(Row { key, committed: None, dirty: Some(Dirty::Written(value)), owner });
    }

    /// Puts every row from that slot on into the index, sorting once; false if a key came twice,
    /// of which the index then holds the first.
    #[must_use]
    pub(super) fn index_from(&mut self, first: Slot) -> bool {
        let fresh = self.rows.iter().enumerate().skip(first as usize);
        self.index.extend(fresh.map(|(number, row)| (row.key.clone(), slot(number))));
        self.index.sort();
        let entries = self.index.len();
        self.index.dedup_by(|later, earlier| later.0 == earlier.0);
        self.index.len() == entries
    }

    /// Makes the dirty version the committed one and frees the row; `None` if nothing was written.
    pub(super) fn settle(&mut self, slot: Slot) -> Option<Replaced<V>> {
        let row = self.row_mut(slot);
        row.owner = 0;
        let dirty = row.dirty.take()?;
        let after = match dirty {
            Dirty::Written(value) => Some(value),
            Dirty::Deleted => None,
        };
        Some(Replaced { before: std::mem::replace(&mut row.committed, after) })
    }

    /// Committed rows that no session owns, in key order.
    pub(super) fn free_committed(&self) -> impl Iterator<Item = &V> {
        let rows = self.index.iter().map(|entry| self.row(entry.1));
        rows.filter(|row| row.owner == 0).filter_map(|row| row.committed.as_ref())
    }

    /// True if a row is the session's.
    pub(super) fn has_owned(&self, session: SessionId) -> bool {
        self.rows.iter().any(|row| row.owner == session)
    }

    /// Deletes the committed version of a row that no session owns.
    pub(super) fn delete_one(&mut self, key: &K) {
        if let Some(slot) = self.find(key) {
            self.row_mut(slot).committed = None;
        }
    }

    /// Deletes every committed version.
    pub(super) fn delete_committed(&mut self) {
        self.rows.iter_mut().for_each(|row| row.committed = None);
    }

    /// Drops the dirty version and frees the row.
    pub(super) fn forget(&mut self, slot: Slot) {
        let row = self.row_mut(slot);
        row.owner = 0;
        row.dirty = None;
    }
}

impl<K: Ord + Clone, V: Clone> Table<K, V> {
    /// A copy that holds the committed versions only, all of them free, in the same slots.
    pub(super) fn frozen(&self) -> Self {
        let freeze = |row: &Row<K, V>| Row {
            key: row.key.clone(),
            committed: row.committed.clone(),
            dirty: None,
            owner: 0,
        };
        Self { rows: self.rows.iter().map(freeze).collect(), index: self.index.clone() }
    }
}
