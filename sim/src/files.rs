//! Files that a user names, read as text: bounded, so that a source without an end is refused.
//! Never parses.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes of a file that is read, at most: several times what the largest flow with small payloads
/// takes.
const BYTES_MAX: u64 = 256 << 20;

/// The text of a file, or why there is none.
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    bounded(file, BYTES_MAX)
}

fn bounded(source: impl Read, bytes_max: u64) -> Result<String, String> {
    let mut text = String::new();
    let read = source.take(bytes_max + 1).read_to_string(&mut text);
    if text.len() as u64 > bytes_max {
        return Err(format!("it has more than {bytes_max} bytes, the limit"));
    }
    match read {
        Ok(_) => Ok(text),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_without_an_end_is_refused_and_one_at_the_limit_is_read() {
        let refused = bounded(std::io::repeat(b'x'), 9);
        assert_eq!(refused, Err("it has more than 9 bytes, the limit".to_owned()));
        assert_eq!(bounded(&b"123456789"[..], 9).as_deref(), Ok("123456789"));
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        let refused = bounded(&[0xFF, 0xFE][..], 9).unwrap_err();
        assert!(refused.contains("UTF-8"), "{refused}");
    }

    #[test]
    fn a_file_that_is_not_there_is_refused() {
        let refused = read_text(Path::new("/no/such/file")).unwrap_err();
        assert!(refused.contains("No such file"), "{refused}");
    }
}
