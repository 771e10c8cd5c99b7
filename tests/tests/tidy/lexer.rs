//! Rust text with comments and literals blanked, so that rules look at code only. Never parses.

/// The text with every comment, string and character replaced by blanks; line breaks stay.
pub(crate) fn code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = match chars[at] {
            '/' if chars.get(at + 1) == Some(&'/') => line_end(&chars, at),
            '/' if chars.get(at + 1) == Some(&'*') => comment_end(&chars, at),
            '"' => string_end(&chars, at + 1),
            'r' if !follows_word(&chars, at) => raw_string_end(&chars, at),
            '\'' => char_end(&chars, at),
            _ => at,
        };
        if end == at {
            out.push(chars[at]);
            at += 1;
            continue;
        }
        let blank = |c: &char| if *c == '\n' { '\n' } else { ' ' };
        out.extend(chars[at..end].iter().map(blank));
        at = end;
    }
    out
}

fn follows_word(chars: &[char], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| chars[before]);
    before.is_some_and(|c| c.is_alphanumeric() && c != 'b' || c == '_')
}

fn line_end(chars: &[char], at: usize) -> usize {
    chars[at..].iter().position(|c| *c == '\n').map_or(chars.len(), |length| at + length)
}

fn comment_end(chars: &[char], at: usize) -> usize {
    let (mut depth, mut at) = (0, at);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn string_end(chars: &[char], at: usize) -> usize {
    let mut at = at;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// The end of a raw string that begins at an `r`, or `at` if none does.
fn raw_string_end(chars: &[char], at: usize) -> usize {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    let open = at + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return at;
    }
    let mut end = open + 1;
    while end < chars.len() {
        let closing = chars[end + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
        if chars[end] == '"' && closing {
            return end + 1 + hashes;
        }
        end += 1;
    }
    chars.len()
}

/// The end of a character literal, or `at` if the quote begins a lifetime.
fn char_end(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), _) => {
            let rest = chars[at + 3..].iter().position(|c| *c == '\'');
            rest.map_or(chars.len(), |length| at + 3 + length + 1)
        }
        (Some(_), Some('\'')) => at + 3,
        _ => at,
    }
}

#[test]
fn comments_and_literals_vanish_and_code_stays() {
    let check = |text: &str, expected: &str| {
        let found = code(text);
        assert_eq!(found.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{text}");
        assert_eq!(found.chars().count(), text.chars().count());
    };
    check("a // b\nc", "a c");
    check("a /* b /* c */ d */ e", "a e");
    check(r#"f("a \" b") + g"#, "f( ) + g");
    check("r#\"a \" b\"# + for_r + 'x' + '\\'' + 'a", "+ for_r + + + 'a");
    check("fn f<'a>(x: &'a str) -> char { 'a' }", "fn f<'a>(x: &'a str) -> char { }");
}
