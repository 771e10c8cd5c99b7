//! Real Postgres servers for whoever needs one: a throwaway cluster, or a server of the user's with
//! a schema of its own. Never touches what it did not make.

mod binaries;
mod cluster;

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use sluicegate::storage::postgres::{OpenError, PostgresOptions, PostgresStorage};

pub use binaries::INSTALL;
pub use cluster::Cluster;

/// Which server a command works on: the value of `--postgres`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Server {
    /// A throwaway cluster.
    #[default]
    Auto,
    /// A server that runs already.
    Url(String),
}

/// No server could be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Install it.
    #[error("no PostgreSQL server on this machine: {}", INSTALL)]
    Missing,
    /// Make a user that may run it, since it refuses to run as root.
    #[error("PostgreSQL refuses to run as root, and there is no user `postgres` to run it as")]
    NoUser,
    /// See what it said.
    #[error("{program} ended with {status}: {output}")]
    Program {
        /// Which of its programs.
        program: &'static str,
        /// Its exit status.
        status: String,
        /// The end of what it printed.
        output: String,
    },
    /// The system refused something.
    #[error("{doing}: {error}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// Why it failed.
        error: std::io::Error,
    },
    /// The server refused the database.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Server::Auto);
        }
        match PostgresOptions::new(text) {
            Ok(_) => Ok(Server::Url(text.to_owned())),
            Err(error) => Err(format!("neither `auto` nor a server: {error}")),
        }
    }
}

impl fmt::Display for Server {
    /// As it is written on a command line; a URL may hold a password and is not repeated.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Server::Auto => f.write_str("auto"),
            Server::Url(_) => f.write_str("URL"),
        }
    }
}

/// A server to work on, and what was made for it: gone when this is dropped.
#[derive(Debug)]
pub struct Provided {
    cluster: Option<Cluster>,
    url: String,
    schema: String,
}

impl Server {
    /// A server: a cluster with these settings besides its own, or the user's as it is set up.
    /// `purpose` becomes a part of the name of the schema.
    pub fn provide(
        &self,
        purpose: &str,
        settings: &[(&str, &str)],
    ) -> Result<Provided, ServerError> {
        match self {
            Server::Auto => {
                let cluster = Cluster::start(settings)?;
                let url = cluster.url();
                Ok(Provided { cluster: Some(cluster), url, schema: "sluicegate".into() })
            }
            Server::Url(url) => {
                let random = getrandom::u32().map_err(|_| ServerError::System {
                    doing: "drawing the name of a schema",
                    error: std::io::ErrorKind::Other.into(),
                })?;
                let schema = format!("sluicegate_{purpose}_{random:08x}");
                Ok(Provided { cluster: None, url: url.clone(), schema })
            }
        }
    }
}

impl Provided {
    /// The server's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The schema to work in; it does not exist yet.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// The cluster, if one was started for this.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    /// How to open it.
    pub fn options(&self) -> Result<PostgresOptions, OpenError> {
        Ok(PostgresOptions::new(&self.url)?.schema(&self.schema))
    }
}

impl Drop for Provided {
    /// Drops the schema on a server that goes on running.
    fn drop(&mut self) {
        if self.cluster.is_some() {
            return;
        }
        let Ok(options) = self.options() else { return };
        // A runtime of its own, since whoever drops this may stand inside one.
        let dropping = std::thread::spawn(move || -> Result<(), String> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| error.to_string())?;
            let refuses = |error: &OpenError| {
                use OpenError::{Pooler, ReadOnly, TooOld};
                matches!(error, Pooler { .. } | ReadOnly | TooOld { .. })
            };
            match runtime.block_on(PostgresStorage::drop_schema(&options)) {
                // A server that is refused holds nothing of ours.
                Err(error) if !refuses(&error) => Err(error.to_string()),
                _ => Ok(()),
            }
        });
        let reason = match dropping.join() {
            Ok(Ok(())) => return,
            Ok(Err(reason)) => reason,
            Err(_) => "dropping it panicked".into(),
        };
        eprintln!("warning: schema {} may be left behind: {reason}", self.schema);
    }
}

/// One cluster for all tests of a process; its guard removes it when the process ends.
pub fn shared() -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(|| match Cluster::start(&[("max_connections", "200")]) {
        Ok(cluster) => cluster,
        Err(error) => panic!("{error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_auto_or_a_url_and_anything_else_says_what_to_write() {
        assert_eq!("auto".parse(), Ok(Server::Auto));
        let url = "postgres://me@host/db";
        assert_eq!(url.parse(), Ok(Server::Url(url.into())));
        let refused = "host/db".parse::<Server>().unwrap_err();
        assert!(refused.contains("auto") && refused.contains("postgres://user@host/database"));
    }
}
