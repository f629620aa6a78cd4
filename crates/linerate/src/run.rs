//! The calls that take URLs: open what they name, then run the job.

use std::io::{Read, Write};
use std::sync::Arc;
use std::task::Waker;

use names::{FileSource, Filter, Source, VolumeUrl};
use protocol::Instant;
use reactor::{Cluster, Config};
use rustix::fs::{Access, FlockOperation};
use volume::{Attendants, Features, Leaving, OpenError, Volume};

use crate::check::{Check, CheckPlan, CheckResult};
use crate::checksum::{ChecksumPlan, Sum};
use crate::client::{Client, ClientConfig, Run};
use crate::compare::{Compare, CompareResult};
use crate::control::{Control, Effort, Stop};
use crate::copy::{Copy, CopyPlan, CopyResult, Origin};
use crate::error::{DataError, Error};
use crate::explain::{Explain, explained};
use crate::inspect::{Inspect, Inspection};
use crate::job::{Environment, Job, JobContext, JobService};
use crate::limits::QUERY_BYTES;
use crate::load::{Load, LoadControl, LoadPlan, LoadResult, Progress};
use crate::open::Opening;
use crate::ordered::{self, ChecksumResult, ExportResult, Summing};
use crate::stream::Outlet;
use crate::walk::NamedVolume;
use crate::zero::{Zero, ZeroPlan, ZeroResult};
use crate::zeros::Zeros;

/// Runs a job on the calling thread until it has a result.
pub(crate) fn run_job<J: Job>(make: impl FnOnce(Environment) -> J) -> Result<J::Output, Error> {
    run_on(Cluster::new(1, Config::default())?, make)
}

/// The same on an event loop that is there already.
fn run_on<J: Job>(cluster: Cluster<()>, make: impl FnOnce(Environment) -> J) -> Result<J::Output, Error> {
    let Some(core) = cluster.into_cores().pop() else {
        return Err(std::io::Error::other("the event loop has no core").into());
    };
    let service = core.run(|world| JobService::new(make(Environment::from(&world))))?;
    service.into_output().ok_or_else(|| std::io::Error::other("the event loop ended before its job").into())
}

/// A step that follows when volumes are open.
type Next<J> = Box<dyn FnOnce(&[Arc<dyn Volume>], &Environment) -> Result<J, OpenError>>;

/// What came of a job, while its volumes are left in order.
struct Ended<J: Job> {
    leaving: Leaving,
    output: Result<J::Output, Error>,
}

/// Opens volumes one after the other, then runs a job on them, and leaves them in order.
struct Opened<J: Job> {
    environment: Environment,
    /// What the user called them.
    names: Vec<String>,
    urls: Vec<VolumeUrl>,
    prepare: fn(&mut VolumeUrl, &[Arc<dyn Volume>]),
    opening: Option<Opening>,
    volumes: Vec<Arc<dyn Volume>>,
    next: Option<Next<J>>,
    job: Option<J>,
    attendants: Attendants,
    ended: Option<Ended<J>>,
    /// Ends the opening at once; what follows it listens for itself.
    stop: Stop,
}

impl<J: Job> Opened<J> {
    fn begin(
        environment: Environment,
        urls: Vec<VolumeUrl>,
        prepare: fn(&mut VolumeUrl, &[Arc<dyn Volume>]),
        next: Next<J>,
    ) -> Self {
        Self {
            environment,
            names: urls.iter().map(ToString::to_string).collect(),
            urls,
            prepare,
            opening: None,
            volumes: Vec::new(),
            next: Some(next),
            job: None,
            attendants: Attendants::default(),
            ended: None,
            stop: Stop::new(),
        }
    }

    /// Opens no further once it is asked to stop.
    fn until(mut self, stop: Stop) -> Self {
        stop.listen(&self.environment.waker);
        self.stop = stop;
        self
    }

    fn open_next(&mut self, now: Instant) -> Option<Result<(), Error>> {
        let url = self.urls.get_mut(self.volumes.len())?;
        if self.opening.is_none() {
            (self.prepare)(url, &self.volumes);
            self.opening = Some(Opening::new(url, &self.environment, self.environment.without_pool()));
        }
        let Some(result) = self.opening.as_mut()?.poll(now) else {
            return self.stop.is_set().then_some(Err(Error::Stopped));
        };
        self.opening = None;
        let url = self.names.get(self.volumes.len()).cloned().unwrap_or_default();
        Some(result.map(|volume| self.volumes.push(volume)).map_err(|error| Error::Open { url, error }))
    }

    /// Leaves the volumes in order. One that cannot be is as after a crash: nothing is lost by that.
    fn leave(&mut self, output: Result<J::Output, Error>) {
        let (volumes, context) = (self.volumes.iter().cloned(), self.environment.without_pool());
        let leaving = Leaving::begin_attended(volumes, &mut self.attendants, &context);
        self.ended = Some(Ended { leaving, output });
    }

    fn start(&mut self) -> Result<(), Error> {
        let Some(next) = self.next.take() else { return Ok(()) };
        let url = self.names.last().cloned().unwrap_or_default();
        self.attendants.add(self.volumes.iter().cloned(), &self.environment.without_pool());
        self.job = Some(next(&self.volumes, &self.environment).map_err(|error| Error::Open { url, error })?);
        Ok(())
    }
}

impl<J: Job<Output: Explain>> Job for Opened<J> {
    type Output = Result<J::Output, Error>;

    fn poll(&mut self, now: Instant) -> Option<Self::Output> {
        while self.job.is_none() && self.ended.is_none() {
            let step = if self.volumes.len() < self.urls.len() { self.open_next(now)? } else { self.start() };
            if let Err(error) = step {
                self.leave(Err(error));
            }
        }
        self.attendants.poll(now);
        if let Some(job) = &mut self.job {
            let output = explained(job.poll(now)?, &self.volumes);
            self.job = None;
            self.leave(Ok(output));
        }
        if !self.ended.as_mut()?.leaving.poll(now) {
            return None;
        }
        self.ended.take().map(|ended| ended.output)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match &self.job {
            Some(job) => [job.poll_timeout(), self.attendants.poll_timeout()].into_iter().flatten().min(),
            None => match &self.ended {
                Some(ended) => ended.leaving.poll_timeout(),
                None => self.opening.as_ref().and_then(Opening::poll_timeout),
            },
        }
    }

    fn expects_work(&self) -> bool {
        self.job.as_ref().is_some_and(Job::expects_work)
    }
}

/// Opens volumes, one after the other, and runs the job that `next` makes of them.
fn on_volumes<J: Job<Output: Explain>>(
    stop: Stop,
    urls: Vec<VolumeUrl>,
    prepare: fn(&mut VolumeUrl, &[Arc<dyn Volume>]),
    next: impl FnOnce(&[Arc<dyn Volume>], &Environment) -> Result<J, OpenError> + 'static,
) -> Result<J::Output, Error> {
    run_job(|environment| Opened::begin(environment, urls, prepare, Box::new(next)).until(stop))?
}

/// Puts a load on volumes, on each in turn. `progress` is told the elapsed time and the completed requests about once a
/// second; `stop` ends the load with what has been counted so far. The same volume named twice is opened twice, with connections of
/// its own.
pub fn run_load(
    urls: &[VolumeUrl],
    plan: LoadPlan,
    progress: Progress,
    stop: Stop,
) -> Result<LoadResult, Error> {
    let usual = Config::default();
    let config = Config { spin: plan.spin.unwrap_or(usual.spin), congestion: plan.congestion, ..usual };
    let cluster = Cluster::new(1, config)?;
    let turns = cluster.turns();
    let writes = plan.pattern.writes() || plan.verify;
    let (own, prepare) = (turns.clone(), if writes { as_it_is } else { for_reading });
    let wish = stop.clone();
    let next = move |volumes: &[Arc<dyn Volume>], environment: &Environment| {
        Ok(Load::new(volumes, plan, LoadControl { progress, stop }, &environment.waker)?.on(own))
    };
    let mut result = run_on(cluster, |environment| {
        Opened::begin(environment, urls.to_vec(), prepare, Box::new(next)).until(wish)
    })??;
    result.longest_turn = turns.iter().map(|turns| turns.longest()).max().unwrap_or_default();
    result.stalls = turns.iter().map(|turns| turns.stalls()).sum();
    Ok(result)
}

/// Checks that a volume keeps data. **Overwrites** the first bytes of the volume, as many as the plan says.
pub fn check(url: &VolumeUrl, plan: CheckPlan) -> Result<CheckResult, Error> {
    let result = on_volumes(Stop::new(), vec![url.clone()], as_it_is, move |volumes, environment| {
        Check::new(volumes[0].as_ref(), plan, &environment.waker)
    })?;
    result.map_err(|error| Error::Check { url: url.to_string(), error })
}

/// Copies one volume onto another, from its beginning. A target file that does not exist is made in the source's size.
pub fn copy(
    source: &VolumeUrl,
    target: &VolumeUrl,
    plan: CopyPlan,
    control: Control,
) -> Result<CopyResult, Error> {
    let names = (source.to_string(), target.to_string());
    let urls = vec![source.clone(), target.clone()];
    let result = on_volumes(control.stop.clone(), urls, for_copying, move |volumes, environment| {
        let from = Origin::Volume(NamedVolume { volume: &volumes[0], name: names.0 });
        let target = NamedVolume { volume: &volumes[1], name: names.1 };
        Copy::onto(target, from, plan, JobContext { control, waker: &environment.waker })
    })?;
    Ok(result?)
}

/// Copies a stream onto a volume, from its beginning. The end of a stream that is no whole number of blocks is filled with zeros.
pub fn import(
    stream: Box<dyn Read + Send>,
    target: &VolumeUrl,
    plan: CopyPlan,
    control: Control,
) -> Result<CopyResult, Error> {
    let name = target.to_string();
    let result =
        on_volumes(control.stop.clone(), vec![target.clone()], as_it_is, move |volumes, environment| {
            let target = NamedVolume { volume: &volumes[0], name };
            Copy::onto(
                target,
                Origin::Stream(stream),
                plan,
                JobContext { control, waker: &environment.waker },
            )
        })?;
    Ok(result?)
}

/// Writes a volume's bytes to a stream, in order. Of the plan, `verify` does not apply.
pub fn export(
    source: &VolumeUrl,
    stream: Box<dyn Write + Send>,
    plan: CopyPlan,
    control: Control,
) -> Result<ExportResult, Error> {
    let name = source.to_string();
    let range = ordered::Range { offset: 0, length: None, sparse: plan.sparse, effort: plan.effort };
    let result =
        on_volumes(control.stop.clone(), vec![source.clone()], for_reading, move |volumes, environment| {
            let outlet = Outlet::open(stream, &environment.waker)?;
            let source = NamedVolume { volume: &volumes[0], name };
            ordered::read(source, range, outlet, JobContext { control, waker: &environment.waker })
        })?;
    Ok(result?)
}

/// Sums a volume's bytes.
pub fn checksum(url: &VolumeUrl, plan: ChecksumPlan, control: Control) -> Result<ChecksumResult, Error> {
    let name = url.to_string();
    let range =
        ordered::Range { offset: plan.offset, length: plan.length, sparse: true, effort: plan.effort };
    let result =
        on_volumes(control.stop.clone(), vec![url.clone()], for_reading, move |volumes, environment| {
            let sink = Summing { sum: Sum::new(plan.algorithm), zeros: Zeros::new() };
            let source = NamedVolume { volume: &volumes[0], name };
            ordered::read(source, range, sink, JobContext { control, waker: &environment.waker })
        })?;
    Ok(result?)
}

/// Compares two volumes byte by byte; where one is longer, its tail is compared with zeros.
pub fn compare(
    one: &VolumeUrl,
    two: &VolumeUrl,
    effort: Effort,
    control: Control,
) -> Result<CompareResult, Error> {
    let names = (one.to_string(), two.to_string());
    let urls = vec![one.clone(), two.clone()];
    let result = on_volumes(control.stop.clone(), urls, for_reading, move |volumes, environment| {
        let one = NamedVolume { volume: &volumes[0], name: names.0 };
        let two = NamedVolume { volume: &volumes[1], name: names.1 };
        Compare::of(one, two, effort, JobContext { control, waker: &environment.waker })
    })?;
    Ok(result?)
}

/// Looks at a volume without touching it: files and devices are opened for reading, and none is made or grown. What only an attempt
/// to write would tell of a file, whether its space can be released, is not said.
pub fn inspect(url: &VolumeUrl) -> Result<Inspection, Error> {
    let mut found =
        on_volumes(Stop::new(), vec![url.clone()], for_reading, |volumes, _| Ok(Inspect::of(&volumes[0])))?;
    if !url.is_read_only() && is_free(&url.source) {
        found.features.remove(Features::READ_ONLY);
    }
    Ok(found)
}

/// How a volume is allocated, from its beginning to its end; neighbouring runs differ. It is opened for reading.
pub fn map(url: &VolumeUrl) -> Result<Vec<Run>, Error> {
    let mut url = url.clone();
    for_reading(&mut url, &[]);
    let disk = Client::start(&ClientConfig::default())?.open(&url)?.blocking();
    let size = disk.disk().geometry().bytes();
    let mut runs: Vec<Run> = Vec::new();
    let mut at = 0;
    while at < size {
        let asked = disk.allocation(at, (size - at).min(QUERY_BYTES));
        let run = asked.map_err(|error| DataError::new("map", Some(at), error.into()))?;
        at += run.len.max(1);
        match runs.last_mut().filter(|last| last.allocated == run.allocated) {
            Some(last) => last.len += run.len,
            None => runs.push(run),
        }
    }
    Ok(runs)
}

/// Whether a file or device could be opened for writing: it has the rights for it, and no other volume has it locked. A device that is claimed
/// otherwise says so when it is opened.
fn is_free(source: &Source) -> bool {
    let path = match source {
        Source::File(file) => &file.path,
        Source::Device(device) => &device.path,
        _ => return false,
    };
    let unlocked = |file| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    rustix::fs::access(path, Access::WRITE_OK).is_ok() && std::fs::File::open(path).is_ok_and(unlocked)
}

/// Makes a part of a volume read as zeros. **Overwrites** it.
pub fn zero(url: &VolumeUrl, plan: ZeroPlan, control: Control) -> Result<ZeroResult, Error> {
    let name = url.to_string();
    let result =
        on_volumes(control.stop.clone(), vec![url.clone()], as_it_is, move |volumes, environment| {
            let target = NamedVolume { volume: &volumes[0], name };
            Zero::on(target, plan, JobContext { control, waker: &environment.waker })
        })?;
    Ok(result?)
}

/// Opens one volume and runs the job that `make` makes of it and the core's waker.
pub(crate) fn on_volume<J: Job<Output: Explain>>(
    url: &VolumeUrl,
    make: impl FnOnce(&Arc<dyn Volume>, &Waker) -> Result<J, OpenError> + 'static,
) -> Result<J::Output, Error> {
    let urls = vec![url.clone()];
    on_volumes(Stop::new(), urls, as_it_is, move |volumes, environment| make(&volumes[0], &environment.waker))
}

/// Opens what the URL says.
fn as_it_is(_url: &mut VolumeUrl, _opened: &[Arc<dyn Volume>]) {}

/// Opens files and devices for reading only: they need not be writable, and may be served meanwhile.
fn for_reading(url: &mut VolumeUrl, _opened: &[Arc<dyn Volume>]) {
    if matches!(url.source, Source::File(_) | Source::Device(_)) && !url.is_read_only() {
        url.filters.push(Filter::ReadOnly);
    }
}

/// Opens a copy's source for reading only, and its target as [`size_new_file`] says.
fn for_copying(url: &mut VolumeUrl, opened: &[Arc<dyn Volume>]) {
    if opened.is_empty() { for_reading(url, opened) } else { size_new_file(url, opened) }
}

/// A target file that does not exist is made in the source's size.
fn size_new_file(url: &mut VolumeUrl, opened: &[Arc<dyn Volume>]) {
    let (Some(source), Source::File(FileSource { path, size, .. })) = (opened.first(), &mut url.source)
    else {
        return;
    };
    if size.is_none() && !std::path::Path::new(path).exists() {
        *size = Some(names::ByteSize(source.geometry().bytes()));
    }
}
