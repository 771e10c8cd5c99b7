//! The rules of one SQL file, by the kind of its verb. A statement that may wait reads only its own
//! target rows; a statement that joins or aggregates never waits.

use std::collections::BTreeMap;

use sluicegate::storage::{Descriptor, Kind};

/// The columns of each table's primary key.
pub(crate) type Keys = BTreeMap<String, Vec<String>>;

/// How a backend hands the rows of one call to a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// The statement runs once for each of them: nothing is joined.
    OneByOne,
    /// As a relation of parameters, which is joined and is not a table.
    Joined,
}

/// Inserts that copy columns of a row that their transaction has locked, so that waiting for a
/// unique key makes nothing stale; each with the table that it reads.
const COPIES: &[(&str, &str)] = &[
    // The worker stands in the execution only, and leaves it with the lease.
    ("insert_attempts", "execution"),
    // The labels of an event are those of its execution.
    ("insert_events", "execution"),
];

const CLOCKS: &[&str] = &[
    "clock_timestamp",
    "current_date",
    "current_time",
    "current_timestamp",
    "date",
    "datetime",
    "julianday",
    "localtime",
    "localtimestamp",
    "now",
    "statement_timestamp",
    "strftime",
    "time",
    "transaction_timestamp",
    "unixepoch",
];
/// Clocks that are read without parentheses.
const BARE_CLOCKS: &[&str] =
    &["current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"];
const AGGREGATES: &[&str] = &[
    "avg",
    "count",
    "distinct",
    "except",
    "exists",
    "group",
    "having",
    "intersect",
    "max",
    "min",
    "over",
    "sum",
    "total",
    "union",
    "with",
];
const WRITES: &[&str] = &["insert", "update", "delete", "replace"];

/// What is wrong with the file of a verb.
pub(crate) fn violations(verb: Descriptor, text: &str, rows: Rows, keys: &Keys) -> Vec<String> {
    let mut found = Vec::new();
    let mut deny = |wrong: bool, reason: &str| {
        if wrong {
            found.push(reason.to_owned());
        }
    };
    let tokens = tokens(text);
    let statement = Statement { tokens: &tokens, keys };
    deny(!text.starts_with("-- "), "the first line does not say what it guards");
    deny(statement.count(";") > 0, "it is more than one statement, or ends in a semicolon");
    deny(tokens.iter().any(|token| token.contains(char::is_uppercase)), "it holds capitals");
    deny(statement.takes_all_columns(), "it selects every column instead of naming them");
    deny(verb.kind != Kind::Control && statement.names_clock(), "it names a clock");
    deny(statement.lists_tables(), "it joins tables by a comma");
    deny(!statement.is_ordered(verb.table), "its rows come in no order");
    let touched = statement.tables();
    let only_own = touched == [verb.table];
    let joins = statement.holds(&["join"]) && rows == Rows::OneByOne;
    let begins = |words: &[&str]| tokens.first().is_some_and(|word| words.contains(&word.as_str()));
    match verb.kind {
        Kind::Control => {}
        Kind::Read => {
            deny(!begins(&["select", "with"]), "a read begins with select or with");
            deny(statement.holds(WRITES), "a read writes or locks");
        }
        Kind::Lock => {
            deny(!begins(&["select"]), "a lock begins with select");
            deny(!only_own, "a lock names its own table, once, and no other");
            deny(joins, "a lock joins");
            deny(statement.holds(AGGREGATES), "a lock aggregates");
            let locks = text.contains("for no key update") && !text.contains("skip locked");
            deny(rows == Rows::Joined && !locks, "a lock ends with for no key update");
        }
        Kind::Take => {
            deny(!begins(&["select", "update", "with"]), "a take begins with select or update");
            deny(statement.holds(&["insert", "delete", "replace"]), "a take adds or removes");
            let written = statement.written();
            deny(written.iter().any(|table| *table != verb.table), "a take writes another table");
            let skips = text.contains("for no key update") && text.contains("skip locked");
            deny(rows == Rows::Joined && !skips, "a take does not skip locked rows");
        }
        Kind::Write => {
            deny(!begins(&["update", "delete"]), "a write begins with update or delete");
            deny(!only_own, "a write names its own table, once, and no other");
            deny(joins, "a write joins");
            deny(statement.holds(AGGREGATES), "a write aggregates");
            let selects = statement.holds(&["select"]) && rows == Rows::OneByOne;
            deny(selects, "a write selects");
            deny(!statement.holds(&["where"]), "a write has no key");
        }
        Kind::Insert => {
            deny(!begins(&["insert"]), "an insert begins with insert");
            deny(statement.written() != [verb.table], "an insert writes another table");
            let source = COPIES.iter().find(|copy| copy.0 == verb.name).map(|copy| copy.1);
            let foreign = |table: &&str| *table != verb.table && Some(*table) != source;
            deny(touched.iter().any(foreign), "an insert reads another table");
            deny(joins, "an insert joins");
            deny(statement.holds(AGGREGATES), "an insert aggregates");
            deny(statement.follows("do", "update"), "an insert updates on conflict");
        }
    }
    found
}

/// True if the text, a migration for instance, names a clock.
pub(crate) fn names_clock(text: &str) -> bool {
    Statement { tokens: &tokens(text), keys: &Keys::new() }.names_clock()
}

/// Names and parameters as one token each, everything else by character; comments left out.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    for line in text.lines() {
        let line = line.split("--").next().unwrap_or_default();
        let mut word = String::new();
        for c in line.chars().chain([' ']) {
            if c.is_alphanumeric() || "_$".contains(c) || c == ':' && word.is_empty() {
                word.push(c);
                continue;
            }
            if !word.is_empty() {
                tokens.push(std::mem::take(&mut word));
            }
            if !c.is_whitespace() {
                tokens.push(c.to_string());
            }
        }
    }
    tokens
}

/// The tables that migrations create, with their primary keys.
pub(crate) fn keys(migrations: &str) -> Keys {
    let tokens = tokens(migrations);
    let mut keys = Keys::new();
    for statement in tokens.split(|token| token == ";") {
        let [create, table, name, rest @ ..] = statement else { continue };
        if (create.as_str(), table.as_str()) == ("create", "table") {
            // Behind its schema, if it names one.
            let qualified = rest.first().is_some_and(|token| token == ".");
            let name = if qualified { &rest[1] } else { name };
            keys.insert(bare(name).to_owned(), primary_key(statement));
        }
    }
    keys
}

/// What stands before the names of our tables in a file, which may hold those of an application.
const PREFIX: &str = "sluicegate_";

/// The name of a table as the descriptors give it.
fn bare(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// The tables and indexes that migrations create without the prefix.
pub(crate) fn without_prefix(migrations: &str) -> Vec<String> {
    let tokens = tokens(migrations);
    let mut found = Vec::new();
    for statement in tokens.split(|token| token == ";") {
        let words: Vec<&str> = statement.iter().map(String::as_str).collect();
        let (["create", "table" | "index" | "trigger" | "view", name, ..]
        | ["create", "unique", "index", name, ..]) = words.as_slice()
        else {
            continue;
        };
        if !name.starts_with(PREFIX) {
            found.push((*name).to_owned());
        }
    }
    found
}

fn primary_key(statement: &[String]) -> Vec<String> {
    let at = statement.windows(2).position(|pair| pair == ["primary", "key"]);
    let Some(at) = at else { return Vec::new() };
    if statement.get(at + 2).is_some_and(|token| token == "(") {
        let columns = statement[at + 3..].iter().take_while(|token| *token != ")");
        return columns.filter(|token| *token != ",").cloned().collect();
    }
    // Behind its column: the column is the first word after the last comma or parenthesis.
    let begin = statement[..at].iter().rposition(|token| token == "," || token == "(");
    begin.map(|begin| vec![statement[begin + 1].clone()]).unwrap_or_default()
}

struct Statement<'a> {
    tokens: &'a [String],
    keys: &'a Keys,
}

impl Statement<'_> {
    fn count(&self, word: &str) -> usize {
        self.tokens.iter().filter(|token| *token == word).count()
    }

    fn holds(&self, words: &[&str]) -> bool {
        // `for no key update` is what a lock does, not a write.
        let is_lock = |at: usize| at >= 1 && self.tokens[at - 1] == "key";
        let found = |(at, token): (usize, &String)| words.contains(&token.as_str()) && !is_lock(at);
        self.tokens.iter().enumerate().any(found)
    }

    fn follows(&self, first: &str, second: &str) -> bool {
        self.tokens.windows(2).any(|pair| pair[0] == first && pair[1] == second)
    }

    fn takes_all_columns(&self) -> bool {
        // `r` is the relation of parameters.
        let of_table = |three: &[String]| three[0] != "r" && three[1] == "." && three[2] == "*";
        self.follows("select", "*") || self.tokens.windows(3).any(of_table)
    }

    fn names_clock(&self) -> bool {
        let clock = |(at, token): (usize, &String)| {
            let called = self.tokens.get(at + 1).is_some_and(|next| next == "(");
            let bare = BARE_CLOCKS.contains(&token.as_str());
            CLOCKS.contains(&token.as_str()) && (called || bare)
        };
        self.tokens.iter().enumerate().any(clock)
    }

    /// The word after the one at this place, without its schema.
    fn target(&self, at: usize) -> Option<&str> {
        let qualified = self.tokens.get(at + 2).is_some_and(|token| token == ".");
        let target = bare(self.tokens.get(if qualified { at + 3 } else { at + 1 })?);
        self.keys.contains_key(target).then_some(target)
    }

    fn targets(&self, words: &[&str]) -> Vec<&str> {
        let places = (0..self.tokens.len()).filter(|at| words.contains(&self.tokens[*at].as_str()));
        places.filter_map(|at| self.target(at)).collect()
    }

    /// The tables that it names, each as often as it does.
    fn tables(&self) -> Vec<&str> {
        self.targets(&["from", "join", "update", "into"])
    }

    /// The tables that it writes.
    fn written(&self) -> Vec<&str> {
        self.targets(&["update", "into"])
    }

    fn lists_tables(&self) -> bool {
        let tables = self.tokens.iter().enumerate().filter(|(_, token)| *token == "from");
        tables.filter(|(at, _)| self.target(*at).is_some()).any(|(at, _)| {
            let rest = &self.tokens[at + 2..];
            let alias = usize::from(rest.first().is_some_and(|token| token == "as")) * 2;
            rest.get(alias).is_some_and(|token| token == ",")
        })
    }

    /// True unless it may return several rows in any order.
    fn is_ordered(&self, table: &str) -> bool {
        if !self.tokens.first().is_some_and(|first| first == "select" || first == "with") {
            return true;
        }
        let outer = self.outermost();
        // What returning yields has no order in any database, and is sorted by the backend; a
        // statement that reads no relation has one row.
        let returns = outer.iter().any(|token| token == "returning");
        if returns || !outer.iter().any(|token| token == "from") {
            return true;
        }
        if outer.windows(2).any(|pair| pair == ["order", "by"]) {
            return true;
        }
        let Some(key) = self.keys.get(table) else { return false };
        let fixed = |column: &String| {
            outer.windows(3).any(|three| {
                three[0] == *column && three[1] == "=" && three[2].starts_with([':', '$'])
            })
        };
        !key.is_empty() && key.iter().all(fixed)
    }

    /// The tokens outside all parentheses.
    fn outermost(&self) -> Vec<String> {
        let mut depth = 0_usize;
        let mut outer = Vec::new();
        for token in self.tokens {
            depth = depth.saturating_sub(usize::from(token == ")"));
            if depth == 0 {
                outer.push(token.clone());
            }
            depth += usize::from(token == "(");
        }
        outer
    }
}
