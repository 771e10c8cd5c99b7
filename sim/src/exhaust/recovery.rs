//! Opens the file on a copy of a disk with SQLite alone, lets it recover, and says what it holds:
//! by a hash of its pages, which costs little, or row by row. Knows nothing of flows, and never
//! says whether that is right.

use std::collections::BTreeMap;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};

use crate::disk::{Disk, disk, vfs};
use crate::driver::sqlite_lane::{DATABASE, on_copy};

/// A hash of all pages.
pub(super) type Pages = u128;
/// Rows by table, each in the order of its key.
pub(super) type Rows = BTreeMap<String, Vec<Vec<Value>>>;

fn connect() -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let path = format!("{}/{DATABASE}", disk(Disk::begin_process));
    Connection::open_with_flags_and_vfs(path, flags, vfs::NAME)
}

/// What the pages hold after recovery.
///
/// The first read recovers the log, and the only connection writes it back as it closes: then the
/// file is all there is. Nothing asks for the schema, whose parsing would cost more than the rest.
pub(super) fn pages(copy: Disk) -> Result<Pages, String> {
    let recover = || {
        let connection = connect()?;
        connection.query_row("pragma schema_version", [], |_| Ok(()))?;
        connection.close().map_err(|(_, error)| error)
    };
    let (recovered, disk) = on_copy(copy, recover);
    recovered.map_err(|error: rusqlite::Error| format!("it cannot be recovered: {error}"))?;
    disk.pages(DATABASE)
}

/// What the tables hold after recovery, if SQLite finds the file sound.
pub(super) fn rows(copy: Disk) -> Result<Rows, String> {
    let read = || {
        let connection = connect()?;
        let sound: String = connection.query_row("pragma integrity_check", [], |row| row.get(0))?;
        let mut tables: Rows = BTreeMap::new();
        let names = "select name from sqlite_schema where type = 'table' order by name";
        let mut names = connection.prepare(names)?;
        let names: Vec<String> =
            names.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        for name in names {
            let mut statement = connection.prepare(&format!("select * from \"{name}\""))?;
            let columns = statement.column_count();
            let row = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get(at)).collect();
            let rows = statement.query_map([], row)?.collect::<rusqlite::Result<_>>()?;
            tables.insert(name, rows);
        }
        Ok((sound, tables))
    };
    let (read, _) = on_copy(copy, read);
    match read {
        Err::<_, rusqlite::Error>(error) => Err(format!("it cannot be read: {error}")),
        Ok((sound, _)) if sound != "ok" => Err(format!("it is not sound: {sound}")),
        Ok((_, tables)) => Ok(tables),
    }
}

/// In what rows differ from those that they should be.
pub(super) fn difference(known: &Rows, found: &Rows) -> Option<String> {
    let unlike = known.iter().find(|(name, rows)| found.get(*name) != Some(rows));
    let Some((name, rows)) = unlike else {
        let other = found.keys().find(|name| !known.contains_key(*name));
        return other.map(|name| format!("nobody knows of table {name}"));
    };
    let Some(stored) = found.get(name) else { return Some(format!("table {name} is gone")) };
    let at = rows.iter().zip(stored).position(|(known, stored)| known != stored);
    let at = at.unwrap_or(rows.len().min(stored.len()));
    Some(format!("{name}: acknowledged {:?}, found {:?}", rows.get(at), stored.get(at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[i64]) -> Rows {
        let rows = rows.iter().map(|row| vec![Value::Integer(*row)]).collect();
        BTreeMap::from([("t".to_owned(), rows)])
    }

    #[test]
    fn a_row_that_is_gone_or_another_or_unknown_is_a_difference() {
        let known = table(&[1, 2]);
        assert_eq!(difference(&known, &table(&[1, 2])), None);
        for other in [&[1][..], &[1, 3], &[1, 2, 3]] {
            assert!(difference(&known, &table(other)).is_some(), "{other:?}");
        }
        assert!(difference(&known, &Rows::new()).is_some());
        assert!(difference(&Rows::new(), &known).is_some());
    }
}
