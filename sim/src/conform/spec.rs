//! Golden cases as files, in a subset of the format of Postgres' own isolation tester. Parses;
//! never runs one.
//!
//! ```text
//! # a comment
//! setup { <steps separated by semicolons> }
//! session "s1"
//! setup { set lock_timeout = 50 }
//! step "s1_lock" { lock_groups keys=c }
//! permutation "s1_lock" "s2_lock" "s1_commit"
//! ```
//!
//! Where the original has SQL, a step here holds verbs of the descriptor table with named
//! arguments, or control words, separated by semicolons. The setup of the file is one transaction
//! that commits; that of a session may set `lock_timeout` and `statement_timeout`, in milliseconds.
//! There is no teardown, since every permutation has a partition of its own, and no parenthesis at
//! a step.

use super::server::WaitLimits;
use super::words::{Control, Step, Words};

/// A parsed file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Spec {
    /// What is committed before every permutation.
    pub setup: Vec<Words>,
    /// The sessions.
    pub sessions: Vec<Session>,
    /// The orders of steps to run.
    pub permutations: Vec<Vec<StepName>>,
}

/// A step by its session and its position there.
pub type StepName = (usize, usize);

/// A session of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Session {
    /// Its name.
    pub name: String,
    /// Limits on its waits.
    pub limits: WaitLimits,
    /// Its steps, by name.
    pub steps: Vec<(String, Vec<Words>)>,
}

/// Tokens of the format: words, quoted names, and blocks in braces.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Token {
    Word(String),
    Block(String),
}

impl Spec {
    /// Reads a file. An `Err` names what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut spec = Spec::default();
        let mut permutations: Vec<Vec<String>> = Vec::new();
        let mut tokens = tokens(text)?.into_iter().peekable();
        while let Some(token) = tokens.next() {
            let Token::Word(keyword) = token else { return Err("a block stands alone".to_owned()) };
            match keyword.as_str() {
                "setup" => {
                    let block = block(tokens.next(), "setup")?;
                    match spec.sessions.last_mut() {
                        None => spec.setup.extend(steps(&block)?),
                        Some(session) => session.set(&block)?,
                    }
                }
                "session" => {
                    let name = word(tokens.next(), "session")?;
                    spec.sessions.push(Session { name, ..Session::default() });
                }
                "step" => {
                    let name = word(tokens.next(), "step")?;
                    let steps = steps(&block(tokens.next(), "step")?)?;
                    let session = spec.sessions.last_mut();
                    let session = session.ok_or_else(|| format!("step `{name}` has no session"))?;
                    session.steps.push((name, steps));
                }
                "permutation" => {
                    let mut names = Vec::new();
                    while let Some(Token::Word(name)) = tokens.peek() {
                        if KEYWORDS.contains(&name.as_str()) {
                            break;
                        }
                        names.push(name.clone());
                        tokens.next();
                    }
                    permutations.push(names);
                }
                other => return Err(format!("`{other}` is none of {}", KEYWORDS.join(", "))),
            }
        }
        for names in permutations {
            let steps = names.iter().map(|name| spec.step(name));
            let steps = steps.collect::<Result<Vec<_>, String>>()?;
            spec.permutations.push(steps);
        }
        if spec.permutations.is_empty() {
            return Err("the file has no permutation".to_owned());
        }
        Ok(spec)
    }

    fn step(&self, name: &str) -> Result<StepName, String> {
        let places = self.sessions.iter().enumerate().flat_map(|(seat, session)| {
            session.steps.iter().enumerate().map(move |(at, (name, _))| (name, (seat, at)))
        });
        let mut found = places.filter(|(known, _)| *known == name).map(|(_, place)| place);
        let place = found.next().ok_or_else(|| format!("no step is called `{name}`"))?;
        match found.next() {
            None => Ok(place),
            Some(_) => Err(format!("two steps are called `{name}`")),
        }
    }

    /// The setup and the steps of a permutation.
    pub fn steps_of(&self, permutation: &[StepName]) -> Vec<Step> {
        let control = |control| Words::control(control);
        let mut words = vec![control(Control::Begin)];
        words.extend(self.setup.iter().cloned());
        words.push(control(Control::Commit));
        let setup = words.into_iter().map(|words| Step { seat: 0, words });
        let steps = permutation.iter().flat_map(|(seat, at)| {
            let words = self.sessions[*seat].steps[*at].1.iter();
            words.map(move |words| Step { seat: *seat, words: words.clone() })
        });
        setup.chain(steps).collect()
    }

    /// How many steps the setup takes.
    pub fn setup_steps(&self) -> usize {
        self.setup.len() + 2
    }
}

const KEYWORDS: [&str; 4] = ["setup", "session", "step", "permutation"];

impl Session {
    fn set(&mut self, block: &str) -> Result<(), String> {
        for statement in statements(block) {
            let words: Vec<&str> = statement.split_whitespace().collect();
            let ["set", name, "=", value] = words[..] else {
                return Err(format!("`{statement}` is not `set name = milliseconds`"));
            };
            let limit = value.parse().map_err(|_| format!("`{value}` is no milliseconds"))?;
            match name {
                "lock_timeout" => self.limits.lock_ms = Some(limit),
                "statement_timeout" => self.limits.statement_ms = Some(limit),
                other => return Err(format!("`{other}` is not set by a session")),
            }
        }
        Ok(())
    }
}

fn statements(block: &str) -> impl Iterator<Item = &str> {
    block.split(';').map(str::trim).filter(|statement| !statement.is_empty())
}

fn steps(block: &str) -> Result<Vec<Words>, String> {
    statements(block).map(Words::parse).collect()
}

fn word(token: Option<Token>, after: &str) -> Result<String, String> {
    match token {
        Some(Token::Word(word)) => Ok(word),
        _ => Err(format!("`{after}` wants a name")),
    }
}

fn block(token: Option<Token>, after: &str) -> Result<String, String> {
    match token {
        Some(Token::Block(block)) => Ok(block),
        _ => Err(format!("`{after}` wants a block in braces")),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let uncommented: Vec<&str> =
        text.lines().map(|line| line.split('#').next().unwrap_or_default()).collect();
    let text = uncommented.join("\n");
    let mut rest = text.trim_start();
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (token, after) = match first {
            '{' => {
                let end = rest.find('}').ok_or("a block is not closed")?;
                (Token::Block(rest[1..end].to_owned()), &rest[end + 1..])
            }
            '"' => {
                let end = rest[1..].find('"').ok_or("a quoted name is not closed")?;
                (Token::Word(rest[1..=end].to_owned()), &rest[end + 2..])
            }
            _ => {
                let ends = |c: char| c.is_whitespace() || c == '{' || c == '"';
                let end = rest.find(ends).unwrap_or(rest.len());
                (Token::Word(rest[..end].to_owned()), &rest[end..])
            }
        };
        tokens.push(token);
        rest = after.trim_start();
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# two lock one\nsetup { insert_flow; insert_groups rows=c }\n\
        session s1\nsetup { set lock_timeout = 50 }\nstep \"a\" { begin; lock_groups keys=c }\n\
        session s2 step b { begin }\npermutation a b\npermutation b a\n";

    #[test]
    fn a_file_has_sessions_steps_and_permutations() {
        let spec = Spec::parse(TEXT).unwrap();
        assert_eq!(spec.permutations, [vec![(0, 0), (1, 0)], vec![(1, 0), (0, 0)]]);
        assert_eq!(spec.sessions[0].limits.lock_ms, Some(50));
        let steps = spec.steps_of(&spec.permutations[0]);
        let steps: Vec<String> =
            steps.iter().map(|step| format!("{} {}", step.seat, step.words)).collect();
        assert_eq!(
            steps[spec.setup_steps()..],
            ["0 begin", "0 lock_groups keys=c", "1 begin"].map(str::to_owned)
        );
    }

    #[test]
    fn a_broken_file_is_refused_by_its_word() {
        for (broken, word) in [
            ("session s1 step a { begin }", "no permutation"),
            ("permutation a", "`a`"),
            ("step a { begin } permutation a", "no session"),
            ("teardown { }", "`teardown`"),
            ("session s1 step a { lock_moon } permutation a", "`lock_moon`"),
            ("session s1 setup { set x = 1 } step a { begin } permutation a", "`x`"),
            ("setup { begin", "not closed"),
        ] {
            let error = Spec::parse(broken).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
