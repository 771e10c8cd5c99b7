//! `bench`: what the engine does by second, beside what the storage itself can do in the same run.
//! No figure is printed before its result was verified.

mod ceilings;
mod counted;
pub(crate) mod drive;
mod figures;
mod memory;
pub(crate) mod place;
mod report;
pub(crate) mod shapes;
pub(crate) mod verify;
mod works;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use crate::exit::Exit;
use crate::postgres::Server;
use crate::real_lane::RealLane;
use crate::report::progress::{Goal, Progress};
use crate::report::{Paint, complain, json, print, reproduction};

use ceilings::Ceiling;
use counted::{Counters, VerbTally};
use figures::Spread;
use works::{Bench, WORKS, Work};

pub use works::Scale;

use place::{DURABLE, Place};

/// Whether the time of each verb is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// It is not.
    Off,
    /// Count and mean time of every verb of every work.
    Statements,
}

/// A benchmark as it was asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which storages.
    pub lanes: Vec<RealLane>,
    /// Which Postgres.
    pub postgres: Server,
    /// Which works, by name or by the beginning of it; all if empty.
    pub works: Vec<String>,
    /// Runs of each work.
    pub repeats: u32,
    /// How long it may take.
    pub scale: Scale,
    /// Whether the time of each verb is shown.
    pub profile: Profile,
    /// Where the report for programs goes.
    pub json: Option<PathBuf>,
    /// Whether the table is coloured.
    pub paint: Paint,
    /// The line that repeats it.
    pub command: String,
}

/// What one work came to on one storage.
pub(crate) struct Row {
    work: &'static Work,
    lane: RealLane,
    result: Figures,
}

pub(crate) enum Figures {
    Measured(Box<Measured>),
    Wrong(String),
}

/// Figures of a verified work.
pub(crate) struct Measured {
    ours: Spread,
    ceiling: Option<Spread>,
    ratio: Option<Spread>,
    /// Statements and commits of the counted pass, and by how many units they are shared.
    statements: u64,
    commits: u64,
    units: usize,
    verbs: Vec<VerbTally>,
}

impl Measured {
    fn meets(&self, work: &Work, lane: RealLane) -> Option<bool> {
        let ratio = self.ratio.map(|ratio| ratio.median);
        work.target(lane).is_met(work.unit, self.ours.median, ratio)
    }
}

/// The works that were asked for, or an error that names those that exist.
pub fn check(request: &Request) -> Result<(), String> {
    for asked in &request.works {
        if !WORKS.iter().any(|work| work.name.starts_with(asked.as_str())) {
            let names: Vec<&str> = WORKS.iter().map(|work| work.name).collect();
            return Err(format!("no work `{asked}`; those that exist: {}", names.join(" ")));
        }
    }
    Ok(())
}

/// Runs it and reports.
pub fn run(request: &Request) -> Exit {
    print(&reproduction(&request.command));
    let asked = request.clone();
    let measured = on_a_worker(async move { asked.measure().await });
    let (rows, settings) = match measured {
        Ok(measured) => measured,
        Err(why) => {
            complain(&format!("error: {why}"));
            return Exit::Environment;
        }
    };
    print(&report::text(&rows, &settings, request));
    print(&reproduction(&request.command));
    let mut exits = Vec::new();
    if rows.iter().any(|row| matches!(row.result, Figures::Wrong(_))) {
        exits.push(Exit::Safety);
    }
    if let Some(path) = &request.json
        && let Err(why) = json::write(path, &report::json(&rows, &settings, request))
    {
        complain(&format!("error: {why}"));
        exits.push(Exit::Environment);
    }
    Exit::first_of(&exits)
}

/// Runs it as a task, as a service would. The thread that waits for a runtime drives no I/O: what
/// it ran itself would be woken across threads by every answer of the server.
fn on_a_worker<T: Send + 'static>(
    work: impl Future<Output = Result<T, String>> + Send + 'static,
) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    match runtime.block_on(runtime.spawn(work)) {
        Ok(result) => result,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

/// Drains the database at the address on standard input and prints the most memory that it took:
/// the part of a work that has a process of its own.
pub fn drain() -> Exit {
    match on_a_worker(memory::drain()) {
        Ok(bytes) => {
            print(&format!("{bytes}\n"));
            Exit::Clean
        }
        Err(why) => {
            complain(&format!("error: {why}"));
            Exit::Environment
        }
    }
}

impl Request {
    fn works(&self) -> Vec<&'static Work> {
        let asked = |work: &&&Work| {
            let named = |asked: &String| work.name.starts_with(asked.as_str());
            match self.works.is_empty() {
                true => work.scale <= self.scale,
                // What is named is meant, however long it takes.
                false => self.works.iter().any(named),
            }
        };
        WORKS.iter().filter(asked).copied().collect()
    }

    async fn measure(&self) -> Result<(Vec<Row>, Vec<String>), String> {
        let works = self.works();
        let runs = works.len() * self.lanes.len() * (self.repeats as usize + 1);
        let mut progress = Progress::new("runs", Goal::Count(runs as u64));
        let mut rows = Vec::new();
        let mut settings = Vec::new();
        for lane in &self.lanes {
            let place = match lane {
                RealLane::Sqlite => Place::sqlite()?,
                RealLane::Postgres => Place::postgres(&self.postgres, DURABLE).await?,
            };
            settings.push(place.settings());
            for work in &works {
                let result = self.measure_work(work, &place, &mut progress).await?;
                rows.push(Row { work, lane: place.lane(), result });
            }
            place.clean_up().await?;
        }
        progress.finish();
        Ok((rows, settings))
    }

    /// Ours and the ceiling in turn, as often as asked, then once more to count statements. An
    /// `Err` is of the machine; what is wrong with a result is part of the row.
    async fn measure_work(
        &self,
        work: &Work,
        place: &Place,
        progress: &mut Progress,
    ) -> Result<Figures, String> {
        let (mut ours, mut ceilings, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let bench = Bench { place, counters: None };
        for _ in 0..self.repeats_of(work) {
            let sample = match (work.run)(&bench).await {
                Ok(sample) => sample,
                Err(why) => return Ok(Figures::Wrong(why)),
            };
            progress.advance(1, 0);
            ours.push(sample.figure);
            if let Some(ceiling) = work.ceiling {
                let most = Ceiling::sample(ceiling, place).await?;
                ceilings.push(most);
                ratios.push(sample.figure / most);
            }
        }
        let counters = Arc::new(Counters::default());
        let bench = Bench { place, counters: Some(Arc::clone(&counters)) };
        let sample = match (work.run)(&bench).await {
            Ok(sample) => sample,
            Err(why) => return Ok(Figures::Wrong(why)),
        };
        progress.advance(1, 0);
        let (statements, commits) = counters.sums();
        let spread = |values: &[f64]| (!values.is_empty()).then(|| Spread::of(values));
        Ok(Figures::Measured(Box::new(Measured {
            ours: Spread::of(&ours),
            ceiling: spread(&ceilings),
            ratio: spread(&ratios),
            statements,
            commits,
            units: sample.units,
            verbs: counters.tallies(),
        })))
    }

    /// A work of minutes is run once: its bounds are far from the noise.
    fn repeats_of(&self, work: &Work) -> u32 {
        match work.scale {
            Scale::Quick => self.repeats,
            Scale::Full => 1,
        }
    }
}
