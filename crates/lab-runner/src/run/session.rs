//! A run from start to end: what is built, in which order it is measured, when a point is done, and what is left behind.
//!
//! The state is what lies in the run's folder: a measurement whose result is there is not taken again, so that a run which
//! was cut off goes on where it was ([`resume`]). Everything outside the folder is in the ledger, which is torn down at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::afar::{Binding, Fleet};
use super::measurement;
use super::plan::Plan;
use super::preflight::Here;
use super::progress::{Event, Observer, clock};
use super::stage::{Furnishing, Ground, Stage};
use super::store::{Block, Opened, RunRecord, Store};
use super::task::{Taken, Task};
use super::{integrity, precondition, preflight};
use crate::machine::clock::now;
use crate::machine::ledger::Ledger;
use crate::measure::{Environment, Role, environment, limiter, pressure, steady};
use crate::site::{Processors, Site};
use crate::tool::integrity::Integrity;
use crate::tool::{self, Keeping};
use lab_model::jetstress;
use lab_model::offered;
use lab_model::precondition::{Preconditioned, Rounds};
use lab_model::result::{Coordinate, Flag, PointResult, SCHEMA, point_name};
use lab_model::scenario::calibration::{self, Calibrated, Wanted};
use lab_model::scenario::catalogue::Loaded;
use lab_model::scenario::feasibility::Machine as _;
use lab_model::scenario::needs::Present;
use lab_model::scenario::sweep::{self, Extent, Point};
use lab_model::scenario::{Arm, Design, Metric, ToolKind, primary, topology};
use lab_model::statistics::SEED;
use lab_model::statistics::bootstrap::Bootstrap;
use lab_model::statistics::metric::{Context as Around, main_metric, value_of};
use lab_model::statistics::pairing::{self, ArmPair};
use lab_model::statistics::random::Random;
use lab_model::statistics::{control, knee, stopping};

/// What is to be run.
#[derive(Debug)]
pub struct Options {
    /// The scenario.
    pub scenario: Loaded,
    /// Where.
    pub site: Site,
    /// All points or the quick ones.
    pub extent: Extent,
    /// The longest that the run may take.
    pub budget: Option<Duration>,
    /// Where runs' folders are made.
    pub runs: PathBuf,
    /// The `linerate` program.
    pub linerate: PathBuf,
    /// Serial numbers of devices whose content may be lost.
    pub destroy: BTreeSet<String>,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// Its folder.
    pub folder: PathBuf,
    /// Measurements that failed or are invalid, a sentence each; empty when all is well.
    pub invalid: Vec<String>,
    /// True when it was stopped before its end; [`resume`] goes on.
    pub stopped: bool,
    /// Every result of the points.
    pub results: Vec<PointResult>,
    /// What the A/A control showed.
    pub control: Option<control::Control>,
    /// What it was made of.
    pub control_results: Vec<PointResult>,
}

/// Runs a scenario. `stop` ends it between two measurements.
pub fn run(options: Options, observer: &mut dyn Observer, stop: &AtomicBool) -> Result<Ended> {
    let present = preflight::present(&options.site);
    let here = Here { site: &options.site, present: &present };
    let can_run = |point: &Point| here.can_run(&options.scenario.scenario, point);
    let plan = Plan::new(&options.scenario.scenario, options.extent, options.budget, &can_run);
    preflight::check(&options.scenario.scenario, &plan, here, &options.destroy)?;
    preflight::expendable(&options.scenario.scenario, &options.site, &options.destroy)?;
    let commit = options.linerate.parent().and_then(environment::commit_of);
    let record = RunRecord {
        schema: SCHEMA,
        id: run_id(&options.scenario.scenario.id),
        scenario: options.scenario.scenario.id.clone(),
        scenario_hash: options.scenario.hash.clone(),
        started: timestamp(now()),
        finished: None,
        commit: commit.clone(),
        environment: serde_json::to_value(Environment::capture(commit))?,
        hosts: BTreeMap::new(),
        design: plan.design.clone(),
        quick: options.extent == Extent::Quick,
        budget: options.budget.map(|budget| budget.as_secs_f64()),
        budget_dropped: plan.dropped.clone(),
        calibrated: Vec::new(),
        preconditioned: Vec::new(),
        site: options.site.clone(),
        warnings: Vec::new(),
    };
    let store = Store::create(&options.runs, &record, &options.scenario)?;
    let mut ledger = Ledger::create(&store.folder().join("ledger.jsonl"))?;
    for file in ["scenario.toml", "run.json"] {
        ledger.seal(store.folder(), &store.folder().join(file))?;
    }
    let whom = Whom { observer, stop };
    let ready = Prepared { plan, present, store, record, ledger };
    Session::new(options.scenario, options.linerate, ready, whom).run()
}

/// Goes on with a run that was cut off. What it left outside its folder is torn down first.
pub fn resume(
    folder: &Path,
    linerate: PathBuf,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Ended> {
    let Opened { store, record, scenario } = Store::open(folder)?;
    if record.finished.is_some() {
        bail!("{} is finished: nothing is left to measure", folder.display());
    }
    store.verify()?;
    let mut ledger = Ledger::open(&store.folder().join("ledger.jsonl"))?;
    let torn = ledger.tear_down();
    for what in torn.removed {
        observer.tell(&Event::step(format!("removed what was left: {what}")));
    }
    if let Some(what) = torn.left.first() {
        bail!("{what}; the run cannot go on beside it");
    }
    let mut plan = Plan::new(&scenario.scenario, record.extent(), None, &|_| true);
    plan.points.retain(|point| !record.budget_dropped.contains(&point_name(point)));
    plan.dropped.clone_from(&record.budget_dropped);
    let present = preflight::present(&record.site);
    let here = Here { site: &record.site, present: &present };
    preflight::check(&scenario.scenario, &plan, here, &BTreeSet::new())?;
    let ready = Prepared { plan, present, store, record, ledger };
    Session::new(scenario, linerate, ready, Whom { observer, stop }).run()
}

/// `quick-20261121-081500-4242`: sorts by time, and two runs that start at once differ.
fn run_id(scenario: &str) -> String {
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    format!("{scenario}-{}-{}", now.strftime("%Y%m%d-%H%M%S"), std::process::id())
}

/// Seconds since 1970 as RFC 3339.
fn timestamp(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970 are far below 2^63")]
    let millis = (seconds * 1e3) as i64;
    jiff::Timestamp::from_millisecond(millis).unwrap_or_default().to_string()
}

/// How long the run waits for a quiet machine.
const QUIET_LIMIT: Duration = Duration::from_secs(10);

/// Who hears of the run, and who may end it.
struct Whom<'a> {
    observer: &'a mut dyn Observer,
    stop: &'a AtomicBool,
}

struct Session<'a> {
    whom: Whom<'a>,
    scenario: Loaded,
    linerate: PathBuf,
    plan: Plan,
    present: Present,
    store: Store,
    record: RunRecord,
    ledger: Ledger,
    processors: Processors,
    // Stages before the connections over which they are ended.
    stages: BTreeMap<String, Stage>,
    fleet: Fleet,
    /// Arms that kept their data, by key and topology.
    checked: BTreeSet<String>,
    results: Vec<PointResult>,
    control: Vec<PointResult>,
    invalid: Vec<String>,
    begun: Instant,
    /// Measurements that this process took, and that an earlier one had taken.
    done: (u64, u64),
}

/// One measurement's place in the run.
#[derive(Clone, Copy)]
struct Turn<'a> {
    block: Block<'a>,
    point: &'a [Coordinate],
    /// The arm's name in the results: its key, or `A2` in the control.
    label: &'a str,
    repetition: u32,
    order: u32,
}

impl Turn<'_> {
    /// What is said of this measurement.
    fn sentence(&self, why: &str) -> String {
        let point = point_name(self.point);
        let point = match self.block {
            Block::Point(..) => point,
            Block::Control => format!("{point} (control)"),
            Block::Calibration(_) => format!("{point} (calibration)"),
        };
        sentence(&point, self.label, self.repetition, why)
    }
}

/// `bs=4k rw=randread B rep 3: 7 failed: requests of linerate bench`.
fn sentence(point: &str, arm: &str, repetition: u32, why: &str) -> String {
    format!("{point} {arm} rep {repetition}: {why}")
}

/// Why a point ends early.
enum Interrupted {
    Stopped,
    Failed,
}

/// A run that was planned, and where it is kept.
struct Prepared {
    plan: Plan,
    present: Present,
    store: Store,
    record: RunRecord,
    ledger: Ledger,
}

impl<'a> Session<'a> {
    fn new(scenario: Loaded, linerate: PathBuf, ready: Prepared, whom: Whom<'a>) -> Self {
        let Prepared { plan, present, store, record, ledger } = ready;
        let online = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let processors = record.site.processors.or_usual(online);
        Self {
            whom,
            scenario,
            linerate,
            plan,
            present,
            store,
            record,
            ledger,
            processors,
            stages: BTreeMap::new(),
            fleet: Fleet::default(),
            checked: BTreeSet::new(),
            results: Vec::new(),
            control: Vec::new(),
            invalid: Vec::new(),
            begun: Instant::now(),
            done: (0, 0),
        }
    }

    fn run(mut self) -> Result<Ended> {
        let least = self.plan.seconds().least;
        if self.record.budget.is_some_and(|budget| least > budget) {
            let words = format!(
                "the budget is too short for one point, which is measured all the same: {}",
                clock(least)
            );
            self.warn(words);
        }
        self.whom.observer.tell(&Event::Begun {
            folder: self.store.folder().display().to_string(),
            points: self.plan.points.len(),
            measurements: self.plan.measurements(),
            seconds: least,
        });
        let outcome = self.measure_all();
        self.stages.clear();
        for what in self.ledger.tear_down().left {
            self.warn(what);
        }
        let stopped = outcome?;
        if !stopped {
            for words in knee::outside(&self.scenario.scenario, &self.plan.points, &self.results) {
                self.warn(words);
            }
            if let Some(words) = knee::refusal(&self.scenario.scenario, &self.plan.points, &self.results) {
                self.whom.observer.tell(&Event::Invalid { what: words.clone() });
                self.record.warnings.push(words.clone());
                self.invalid.push(words);
            }
            self.record.finished = Some(timestamp(now()));
        }
        self.keep_record()?;
        self.judge();
        let control = control::control(&self.control, main_metric(self.scenario.scenario.workload.tool));
        Ok(Ended {
            folder: self.store.folder().to_path_buf(),
            invalid: self.invalid,
            stopped,
            results: self.results,
            control,
            control_results: self.control,
        })
    }

    /// True when it was stopped.
    fn measure_all(&mut self) -> Result<bool> {
        self.whom.observer.tell(&Event::step("waiting until the machine is quiet"));
        let quiet = pressure::wait_until_quiet(QUIET_LIMIT, None)?;
        if !quiet.calm {
            self.warn(quiet.to_string());
        }
        let points = self.plan.points.clone();
        if matches!(self.calibrate(&points)?, Err(Interrupted::Stopped)) {
            return Ok(true);
        }
        for (number, point) in points.iter().enumerate() {
            // A load that fails ends its own block: neither the other points nor, after the control, the first one.
            if number == 0 && matches!(self.control_block(point, 1)?, Err(Interrupted::Stopped)) {
                return Ok(true);
            }
            if matches!(self.point(number, point)?, Err(Interrupted::Stopped)) {
                return Ok(true);
            }
        }
        self.second_control(&points)
    }

    /// The control once more where the first arm scattered most. True when it was stopped.
    fn second_control(&mut self, points: &[Point]) -> Result<bool> {
        let metric = main_metric(self.scenario.scenario.workload.tool);
        let spread = |point: &Point| {
            let arm = self.arms(point).first()?.key.clone();
            let here: Vec<PointResult> =
                self.results.iter().filter(|result| result.point == *point).cloned().collect();
            control::spread(&here, &arm, metric)
        };
        let noisiest = points
            .iter()
            .filter_map(|point| Some((spread(point)?, point)))
            .max_by(|(one, _), (other, _)| one.total_cmp(other))
            .map(|(_, point)| point.clone());
        let Some(noisiest) = noisiest.filter(|point| points.first() != Some(point)) else { return Ok(false) };
        if self.is_late() {
            self.warn(format!(
                "no control at {}, the noisiest point: the budget is used up",
                point_name(&noisiest)
            ));
            return Ok(false);
        }
        let first = 2 * primary::control_pairs(&self.scenario.scenario) + 1;
        Ok(matches!(self.control_block(&noisiest, first)?, Err(Interrupted::Stopped)))
    }

    /// Finds out what arms do at most whose loads are shares of that, in turn, as often as the scenario says. An arm that cannot
    /// be loaded so is left without, and its points say so.
    fn calibrate(&mut self, points: &[Point]) -> Result<Result<(), Interrupted>> {
        let scenario = self.scenario.scenario.clone();
        let runs = scenario.calibration.as_ref().map_or(0, |calibration| calibration.runs);
        let mut wanted = calibration::wanted(&scenario, points);
        wanted.retain(|Wanted { arm, place }| self.arms(place).iter().any(|there| there.key == arm.key));
        let mut found: Vec<Vec<f64>> = vec![Vec::new(); wanted.len()];
        for repetition in 1..=runs {
            for (order, (Wanted { arm, place }, found)) in (1..).zip(wanted.iter().zip(&mut found)) {
                let block = Block::Calibration(place);
                let turn = Turn { block, point: place, label: &arm.key, repetition, order };
                match self.one(arm, turn)? {
                    Ok(result) => match result.invalidity() {
                        None => found.push(result.iops()),
                        Some(why) => self.invalid.push(turn.sentence(why)),
                    },
                    Err(Interrupted::Failed) => {}
                    Err(stopped) => return Ok(Err(stopped)),
                }
            }
        }
        let all = wanted.iter().zip(found);
        self.record.calibrated =
            all.filter_map(|(Wanted { arm, place }, runs)| Calibrated::of(&arm.key, place, runs)).collect();
        self.keep_record()?;
        Ok(Ok(()))
    }

    /// What the tool is given: shares as numbers, of what the arm was found to do.
    fn settings(&self, arm: &Arm, turn: Turn<'_>) -> Result<BTreeMap<String, String>> {
        let scenario = &self.scenario.scenario;
        if matches!(turn.block, Block::Calibration(_)) {
            return Ok(calibration::closed_loop(scenario, arm, turn.point));
        }
        let settings = sweep::settings(scenario, arm, turn.point);
        if calibration::share(&settings).is_none() {
            return Ok(settings);
        }
        let (source, place) = (calibration::source(scenario, arm), calibration::place(turn.point));
        let found = source.and_then(|source| {
            self.record.calibrated.iter().find(|one| one.arm == source.key && one.point == place)
        });
        let found =
            found.context("its load is a share of what the calibration finds, which found nothing")?;
        Ok(calibration::loaded(settings, found.iops))
    }

    /// The first arm against itself at a point: what this bench cannot tell apart. Repetitions are numbered from `first` on.
    fn control_block(&mut self, point: &Point, first: u32) -> Result<Result<(), Interrupted>> {
        let Some(arm) = self.arms(point).first().cloned() else { return Ok(Ok(())) };
        let wanted = primary::control_pairs(&self.scenario.scenario);
        let mut sound = 0;
        for repetition in first..first + 2 * wanted {
            let mut labels = [control::ARMS.a, control::ARMS.b];
            self.dice("control", repetition).shuffle(&mut labels);
            let mut disturbed = false;
            for (order, label) in (1..).zip(labels) {
                let turn = Turn { block: Block::Control, point, label, repetition, order };
                match self.one(&arm, turn)? {
                    Ok(result) => {
                        disturbed |= result.doubt().is_some();
                        self.control.push(result);
                    }
                    Err(interrupted) => return Ok(Err(interrupted)),
                }
            }
            sound += u32::from(!disturbed);
            // Without a control nothing is shown: a budget that is used up lets disturbed pairs be taken again, once each.
            let least = self.plan.design.min_pairs;
            let enough = sound >= least || repetition + 1 - first >= 2 * least;
            if sound >= wanted || (enough && self.is_late()) {
                break;
            }
        }
        Ok(Ok(()))
    }

    fn point(&mut self, number: usize, point: &Point) -> Result<Result<(), Interrupted>> {
        let arms = self.arms(point);
        for arm in self.scenario.scenario.arms.clone() {
            let sentences = self.here().lacks(&self.scenario.scenario, &arm, point);
            if !sentences.is_empty() {
                let name = point_name(point);
                self.warn(format!("{name}: arm {} is left out: {}", arm.key, sentences.join("; ")));
            }
        }
        let design = primary::design(&self.scenario.scenario, point);
        for repetition in 1..=stopping::most_repetitions(&design) {
            let mut order: Vec<&Arm> = arms.iter().collect();
            self.dice(&point_name(point), repetition).shuffle(&mut order);
            for (order, arm) in (1..).zip(order) {
                let turn =
                    Turn { block: Block::Point(number, point), point, label: &arm.key, repetition, order };
                match self.one(arm, turn)? {
                    Ok(result) => self.results.push(result),
                    Err(interrupted) => return Ok(Err(interrupted)),
                }
            }
            if self.is_done(point, &arms, &design, repetition) {
                break;
            }
        }
        Ok(Ok(()))
    }

    /// Numbers that decide an order; a run that goes on gets the same ones again.
    fn dice(&self, what: &str, repetition: u32) -> Random {
        let text = format!("{}/{what}/{repetition}", self.record.id);
        let seed = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Random::new(seed)
    }

    /// The arms that can run at a point.
    fn arms(&self, point: &Point) -> Vec<Arm> {
        self.here().arms(&self.scenario.scenario, point)
    }

    const fn here(&self) -> preflight::Here<'_> {
        preflight::Here { site: &self.record.site, present: &self.present }
    }

    /// Whether every arm has been compared with the first one often enough, or the time is up. Disturbed pairs are taken again.
    fn is_done(&self, point: &Point, arms: &[Arm], design: &Design, repetition: u32) -> bool {
        let Some((first, others)) = arms.split_first() else { return true };
        if repetition >= design.min_pairs && self.is_late() {
            return true;
        }
        let scenario = &self.scenario.scenario;
        let metric = main_metric(scenario.workload.tool);
        let level = primary::level_at(scenario, point);
        let here: Vec<PointResult> =
            self.results.iter().filter(|result| result.point == *point).cloned().collect();
        if others.is_empty() {
            return repetition >= design.min_pairs;
        }
        let mut bootstrap = Bootstrap::new(SEED);
        others.iter().all(|other| {
            let pairs = pairing::pairs(&here, ArmPair { a: &first.key, b: &other.key }, metric).pop();
            pairs.is_none_or(|pairs| {
                stopping::at_point(&mut bootstrap, design, repetition, &pairs, level).stops()
            })
        })
    }

    /// Whether measuring on would leave too little of the budget for the points that are still to come.
    fn is_late(&self) -> bool {
        let Some(budget) = self.record.budget else { return false };
        let left = self.expected().saturating_sub(self.done.0 + self.done.1);
        let needed = self.pace() * lab_model::statistics::number::real(left);
        self.begun.elapsed().as_secs_f64() + needed >= budget
    }

    /// Measurements that are expected in all: the least of what is to come, and what was more already.
    fn expected(&self) -> u64 {
        let design = &self.plan.design;
        let extra = self.results.iter().filter(|result| result.repetition > design.min_pairs).count();
        self.plan.measurements() + extra as u64
    }

    /// Seconds that a measurement takes.
    fn pace(&self) -> f64 {
        if self.done.0 == 0 {
            return self.plan.once();
        }
        self.begun.elapsed().as_secs_f64() / lab_model::statistics::number::real(self.done.0)
    }

    fn warn(&mut self, what: String) {
        self.whom.observer.tell(&Event::Warning { what: what.clone() });
        if !self.record.warnings.contains(&what) {
            self.record.warnings.push(what);
        }
    }

    /// Takes one measurement, unless it was taken before. A load that fails is told of and ends its point; a volume that loses
    /// data ends the run.
    fn one(&mut self, arm: &Arm, turn: Turn<'_>) -> Result<Result<PointResult, Interrupted>> {
        if let Some(result) = self.store.finished(turn.block, turn.label, turn.repetition) {
            self.done.1 += 1;
            return Ok(Ok(result));
        }
        if self.whom.stop.load(Ordering::Relaxed) {
            return Ok(Err(Interrupted::Stopped));
        }
        let anew = topology::at(&self.scenario.scenario, arm, turn.point)?.anew;
        if anew || self.scenario.scenario.workload.tool == ToolKind::FirstIo {
            // The clock of a first I/O begins where nothing of the arm is there, and so do caches that are to be cold.
            self.stages.remove(&arm.key);
        }
        self.stage(arm, turn.point)?;
        let folder = self.store.begin(turn.block, turn.label, turn.repetition)?;
        let taken = self.precondition(arm, turn).and_then(|()| self.take(arm, turn, &folder));
        let result = match taken {
            Ok(result) => result,
            Err(error) => {
                self.fail(turn, &format!("{error:#}"));
                return Ok(Err(Interrupted::Failed));
            }
        };
        self.store.finish(&folder, &result)?;
        self.ledger.seal(self.store.folder(), &folder)?;
        self.done.0 += 1;
        self.tell(&result);
        if let Some(why) = result.invalidity() {
            self.whom.observer.tell(&Event::Invalid { what: turn.sentence(why) });
        }
        Ok(Ok(result))
    }

    /// Makes the drives of an arm ready for a point, once, where the site asks for it: all of them are written before the first point, and
    /// the point's own load runs until it is steady.
    fn precondition(&mut self, arm: &Arm, turn: Turn<'_>) -> Result<()> {
        let bound = self.record.site.bound(&self.scenario.scenario.id, &arm.key);
        let Some(asked) = bound.and_then(|bound| bound.precondition.clone()) else { return Ok(()) };
        let of_arm = |one: &&Preconditioned| one.arm == arm.key;
        let done = self.record.preconditioned.iter().filter(of_arm);
        if matches!(turn.block, Block::Calibration(_)) || done.clone().any(|one| one.point == turn.point) {
            return Ok(());
        }
        let folder = self.store.folder().join("precondition").join(&arm.key);
        let written = done.count() > 0;
        let settings = self.settings(arm, turn)?;
        let stage = self.stages.get_mut(&arm.key).context("the arm was not built")?;
        if !written {
            let words = format!("arm {}: writing twice the capacity of its drives", arm.key);
            self.whom.observer.tell(&Event::step(words));
            precondition::write_all(stage, &folder)?;
        }
        self.whom.observer.tell(&Event::step(format!("arm {}: rounds until it is steady", arm.key)));
        let task = Task {
            kind: self.scenario.scenario.workload.tool,
            arm,
            settings: &settings,
            design: &self.plan.design,
            linerate: &self.linerate,
            engines: self.record.site.engines(&self.linerate),
            folder: &folder.join(self.record.preconditioned.len().to_string()),
        };
        let Rounds { iops, unsteady } = precondition::settle(stage, &task, &asked)?;
        self.record.preconditioned.push(Preconditioned {
            arm: arm.key.clone(),
            point: turn.point.to_vec(),
            purged: asked.purged,
            rounds: iops,
            unsteady,
        });
        self.keep_record()
    }

    /// Why an arm's drives have no steady state at a point, where they were preconditioned.
    fn unsettled(&self, arm: &Arm, point: &[Coordinate]) -> Option<Flag> {
        let found = self.record.preconditioned.iter().find(|one| one.arm == arm.key && one.point == point)?;
        let detail = format!("preconditioning: {}", found.unsteady.as_ref()?);
        Some(Flag::NoSteadyState { detail })
    }

    /// Writes `run.json` anew and seals it.
    fn keep_record(&mut self) -> Result<()> {
        self.store.write_record(&self.record)?;
        self.ledger.seal(self.store.folder(), &self.store.folder().join("run.json"))
    }

    /// A measurement that did not come about: it is told of, kept in the run's record, and makes the run end with a failure.
    fn fail(&mut self, turn: Turn<'_>, why: &str) {
        let lines: Vec<&str> = why.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let what = turn.sentence(&lines.join("; "));
        self.whom.observer.tell(&Event::Invalid { what: what.clone() });
        self.record.warnings.push(what.clone());
        self.invalid.push(what);
    }

    fn tell(&mut self, result: &PointResult) {
        let done = self.done.0 + self.done.1;
        let of = self.expected().max(done);
        let left = self.pace() * lab_model::statistics::number::real(of - done);
        self.whom.observer.tell(&Event::Measured {
            done,
            of,
            left,
            point: result.point_name(),
            arm: result.arm.clone(),
            repetition: result.repetition,
            repetitions: self.plan.design.min_pairs,
            iops: result.iops(),
            transactions: value_of(Metric::Transactions, result, &Around::default()).unwrap_or(0.0),
            bytes_per_second: result.bytes_per_second(),
            first_io: value_of(Metric::FirstIo, result, &Around::default()).unwrap_or(0.0) / 1e6,
            cpu: measurement::busy(&result.cpu),
        });
    }

    /// Builds an arm, unless it stands already as the point needs it, and lets it pass the integrity check once.
    fn stage(&mut self, arm: &Arm, point: &[Coordinate]) -> Result<()> {
        let wanted = topology::at(&self.scenario.scenario, arm, point)?;
        let bound = self.record.site.bound(&self.scenario.scenario.id, &arm.key).cloned();
        let stands = self.stages.get(&arm.key);
        if stands.is_some_and(|stage| stage.is_bound() || stage.topology == wanted) {
            return Ok(());
        }
        self.stages.remove(&arm.key);
        self.whom.observer.tell(&Event::step(format!("starting arm {}: {}", arm.key, arm.name)));
        let ground = Ground {
            run: &self.record.id,
            folder: self.store.folder(),
            linerate: &self.linerate,
            processors: &self.processors,
            site: &self.record.site,
            fleet: &self.fleet,
        };
        let build = |ledger: &mut Ledger| match &bound {
            Some(bound) => Stage::bound(&ground, Binding { arm, bound }, &wanted, ledger),
            None => Stage::build(&ground, arm, &wanted, ledger),
        };
        let mut stage = build(&mut self.ledger)?;
        let what = format!("{}-{:?}", arm.key, stage.topology);
        // Checking fills the volumes, as those of all other measurements are filled.
        if wanted.anew || !self.checked.contains(&what) {
            let folder = self.store.folder().join("integrity").join(&arm.key);
            let programs = integrity::Programs {
                linerate: &self.linerate,
                engines: self.record.site.engines(&self.linerate),
            };
            let outcome = integrity::check(&stage, arm.initiator, programs, &folder)
                .with_context(|| format!("arm {} ({}) is not measured", arm.key, arm.name))?;
            if let Integrity::PassedOver(why) = outcome {
                self.whom.observer.tell(&Event::step(format!("arm {}: no integrity pass: {why}", arm.key)));
            }
            self.checked.insert(what);
            if self.scenario.scenario.workload.tool == ToolKind::FirstIo {
                // Programs are in memory from here on, for every arm alike.
                drop(stage);
                stage = build(&mut self.ledger)?;
            }
        }
        let scenario = &self.scenario.scenario;
        let settings = sweep::settings(scenario, arm, point);
        let load = Furnishing { kind: scenario.workload.tool, arm: &arm.key, settings: &settings };
        stage.furnish(&ground, &load, &mut self.ledger).with_context(|| {
            format!("arm {} ({}): what the load needs cannot be made on its volume", arm.key, arm.name)
        })?;
        self.stages.insert(arm.key.clone(), stage);
        self.fleet.describe(&mut self.record.hosts)?;
        Ok(())
    }

    fn take(&mut self, arm: &Arm, turn: Turn<'_>, folder: &Path) -> Result<PointResult> {
        let scenario = &self.scenario.scenario;
        let mut settings = self.settings(arm, turn)?;
        if scenario.workload.tool == ToolKind::Fio {
            tool::ask(&mut settings, self.stages.get(&arm.key).map_or(Keeping::Data, integrity::keeping));
        }
        let task = Task {
            kind: scenario.workload.tool,
            arm,
            settings: &settings,
            design: &self.plan.design,
            linerate: &self.linerate,
            engines: self.record.site.engines(&self.linerate),
            folder,
        };
        let stage = self.stages.get_mut(&arm.key).context("the arm was not built")?;
        let taken = measurement::take(stage, &task)?;
        let reshaped = stage.reshaped();
        let mut result = self.result(arm, turn, taken);
        result.flags.extend(reshaped.map(|detail| Flag::Throttled { detail }));
        result.flags.extend(self.unsettled(arm, turn.point));
        if self.scenario.scenario.workload.tool == ToolKind::Fio {
            let volumes = self.stages.get(&arm.key).map_or(1, Stage::volumes);
            result.flags.extend(offered::check(offered::Asked { settings: &settings, volumes }, &result));
        }
        Ok(result)
    }

    /// Sides that were told to look for work before they sleep: they are busy with nothing too.
    fn polling(&self, arm: &Arm, point: &[Coordinate]) -> Vec<Role> {
        let scenario = &self.scenario.scenario;
        let spins = |span: Option<&String>| span.is_some_and(|span| !span.starts_with('0'));
        let host = spins(sweep::settings(scenario, arm, point).get("spin"));
        let target =
            self.stages.get(&arm.key).is_some_and(|stage| spins(stage.topology.target_spin.as_ref()));
        let sides = [(Role::Host, host), (Role::Target, target)];
        sides.into_iter().filter(|(_, polls)| *polls).map(|(role, _)| role).collect()
    }

    fn result(&self, arm: &Arm, turn: Turn<'_>, taken: Taken) -> PointResult {
        let Taken { measured, counted, started, hosts, neighbours, target_counters } = taken;
        let mut flags = measurement::flags(&measured, &counted);
        if !self.begins_anew(arm) {
            flags.extend(steady::check(&measured.intervals));
        }
        let payload = self.stages.get(&arm.key).and_then(Stage::payload);
        let polling = self.polling(arm, turn.point);
        let limiter = limiter::limiter(&limiter::resources(&counted, payload, &polling));
        let mut intervals = measured.intervals;
        counted.fill(&mut intervals);
        let bound = self.record.site.bound(&self.scenario.scenario.id, &arm.key);
        let parts = jetstress::parts(&measured.load);
        let mut result = PointResult {
            schema: SCHEMA,
            run: self.record.id.clone(),
            scenario: self.scenario.scenario.id.clone(),
            scenario_hash: self.scenario.hash.clone(),
            arm: turn.label.to_owned(),
            point: turn.point.to_vec(),
            repetition: turn.repetition,
            order: turn.order,
            started: timestamp(started),
            seconds: measured.seconds,
            evidence: bound.map_or_else(|| arm.evidence.clone(), |bound| bound.evidence.clone()),
            tool: measured.tool,
            load: measured.load,
            intervals,
            cpu: counted.cpu,
            memory: counted.memory,
            network: counted.network,
            nodes: counted.nodes,
            target_counters,
            neighbours,
            hosts,
            extra: measured
                .extra
                .into_iter()
                .chain(parts)
                .chain(counted.volume)
                .chain(counted.kernel)
                .collect(),
            limiter,
            flags,
        };
        if let Some(Err(error)) = jetstress::Mix::of(&result).map(|mix| mix.check()) {
            result.flags.push(Flag::OutsideProfile { detail: error.to_string() });
        }
        result
    }

    /// Whether an arm's caches were cold, so that its rate must not be steady.
    fn begins_anew(&self, arm: &Arm) -> bool {
        self.stages.get(&arm.key).is_some_and(|stage| stage.topology.anew)
    }

    /// What makes the whole run worthless.
    fn judge(&mut self) {
        for result in self.control.iter().chain(&self.results) {
            if let Some(why) = result.invalidity() {
                let (point, arm, repetition) = (result.point_name(), &result.arm, result.repetition);
                self.invalid.push(sentence(&point, arm, repetition, why));
            }
        }
        if self.results.is_empty() {
            self.invalid.push("nothing was measured".to_owned());
        }
    }
}
