//! The files of the repository, as rules see them. Never judges one.

use std::fs;
use std::path::Path;

use crate::lexer;

/// A file, its path relative to the root with `/` between names.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// The text with comments and literals blanked, line by line as long as before.
    pub(crate) fn code(&self) -> String {
        lexer::code(&self.text)
    }

    /// The code in front of the unit tests at the end of the file.
    pub(crate) fn shipped_code(&self) -> String {
        let code = self.code();
        let end = code.find("#[cfg(test)]\nmod tests {").unwrap_or(code.len());
        code[..end].to_owned()
    }

    /// True if all of the file is a test.
    pub(crate) fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs")
            || self.path.contains("/tests/")
            || self.path.ends_with("/testing.rs")
    }
}

/// Every file beneath a directory of the repository, by path; build results are left out.
pub(crate) fn files(directory: &str, extension: &str) -> Vec<File> {
    let root = sluicegate_tests::root();
    let mut files = Vec::new();
    collect(&root, &root.join(directory), extension, &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Every Rust file of the workspace.
pub(crate) fn rust_files() -> Vec<File> {
    ["engine", "sim", "tests", "ci"].iter().flat_map(|package| files(package, "rs")).collect()
}

/// One file, which must exist.
pub(crate) fn read(path: &str) -> String {
    let full = sluicegate_tests::root().join(path);
    fs::read_to_string(full).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn collect(root: &Path, directory: &Path, extension: &str, files: &mut Vec<File>) {
    let entries = fs::read_dir(directory).expect("the directory can be read");
    for entry in entries {
        let path = entry.expect("the directory can be read").path();
        if path.is_dir() {
            let name = path.file_name().expect("an entry has a name");
            if name != "target" {
                collect(root, &path, extension, files);
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            let relative = path.strip_prefix(root).expect("the walk starts at the root");
            let names: Vec<_> = relative.iter().map(|name| name.to_string_lossy()).collect();
            let text = fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            files.push(File { path: names.join("/"), text });
        }
    }
}
