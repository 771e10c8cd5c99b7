//! Panics of a universe as findings: caught, and kept as text instead of printed. Never touches
//! what the universe left behind.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps panics under `guarded` off the screen; every other one is printed as before.
pub fn keep_quiet() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if GUARDED.get() {
            // What comes of the first panic is not what is wrong.
            SAID.with_borrow_mut(|said| _ = said.get_or_insert_with(|| info.to_string()));
        } else {
            print(info);
        }
    }));
}

/// Runs a closure; if it panics, what it said and where.
pub(crate) fn guarded<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    let outer = GUARDED.replace(true);
    if !outer {
        SAID.set(None);
    }
    let done = panic::catch_unwind(AssertUnwindSafe(f));
    GUARDED.set(outer);
    done.map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        let said = SAID.take();
        said.unwrap_or_else(|| text.unwrap_or("a panic without words").to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_text_and_the_thread_goes_on() {
        let said = guarded(|| -> u8 { panic!("three of {}", 2) }).unwrap_err();
        assert!(said.contains("three of 2"), "{said}");
        assert_eq!(guarded(|| 7), Ok(7));
    }
}
