//! The calls that take URLs: open what they name, then run the job.

use std::sync::Arc;

use names::{FileSource, Source, VolumeUrl};
use protocol::Instant;
use reactor::{Cluster, Config};
use volume::{OpenError, Volume};

use crate::check::{Check, CheckPlan, CheckResult};
use crate::copy::{Copy, CopyResult, Verify};
use crate::error::Error;
use crate::job::{Job, JobService, Surroundings};
use crate::load::{Load, LoadPlan, LoadResult, Progress};
use crate::open::Opening;

/// Runs a job on the calling thread until it has a result.
pub(crate) fn run_job<J: Job>(make: impl FnOnce(Surroundings) -> J) -> Result<J::Output, Error> {
    run_job_with(Config::default(), make)
}

/// The same with settings of its own for the event loop.
fn run_job_with<J: Job>(config: Config, make: impl FnOnce(Surroundings) -> J) -> Result<J::Output, Error> {
    let cluster: Cluster<()> = Cluster::new(1, config)?;
    let Some(core) = cluster.into_cores().pop() else {
        return Err(std::io::Error::other("the event loop has no core").into());
    };
    let service = core.run(|world| JobService::new(make(Surroundings::from(&world))))?;
    service.into_output().ok_or_else(|| std::io::Error::other("the event loop ended before its job").into())
}

/// A step that follows when volumes are open.
type Next<J> = Box<dyn FnOnce(Vec<Arc<dyn Volume>>, &Surroundings) -> Result<J, OpenError>>;

/// Opens volumes one after the other, then runs a job on them.
struct Opened<J: Job> {
    surroundings: Surroundings,
    urls: Vec<VolumeUrl>,
    prepare: fn(&mut VolumeUrl, &[Arc<dyn Volume>]),
    opening: Option<Opening>,
    volumes: Vec<Arc<dyn Volume>>,
    next: Option<Next<J>>,
    job: Option<J>,
}

impl<J: Job> Opened<J> {
    fn open_next(&mut self, now: Instant) -> Option<Result<(), Error>> {
        let url = self.urls.get_mut(self.volumes.len())?;
        if self.opening.is_none() {
            (self.prepare)(url, &self.volumes);
            self.opening = Some(Opening::new(url, &self.surroundings));
        }
        let result = self.opening.as_mut()?.poll(now)?;
        self.opening = None;
        let url = url.to_string();
        Some(result.map(|volume| self.volumes.push(volume)).map_err(|error| Error::Open { url, error }))
    }

    fn start(&mut self) -> Result<(), Error> {
        let Some(next) = self.next.take() else { return Ok(()) };
        let url = self.urls.last().map(ToString::to_string).unwrap_or_default();
        let volumes = self.volumes.clone();
        self.job = Some(next(volumes, &self.surroundings).map_err(|error| Error::Open { url, error })?);
        Ok(())
    }
}

impl<J: Job> Job for Opened<J> {
    type Output = Result<J::Output, Error>;

    fn poll(&mut self, now: Instant) -> Option<Self::Output> {
        while self.job.is_none() {
            let step = if self.volumes.len() < self.urls.len() { self.open_next(now)? } else { self.start() };
            if let Err(error) = step {
                return Some(Err(error));
            }
        }
        self.job.as_mut()?.poll(now).map(Ok)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match &self.job {
            Some(job) => job.poll_timeout(),
            None => self.opening.as_ref().and_then(Opening::poll_timeout),
        }
    }

    fn expects_work(&self) -> bool {
        self.job.as_ref().is_some_and(Job::expects_work)
    }
}

/// Puts a load on volumes, on each in turn. `progress` is told the elapsed time and the completed requests about once a
/// second. The same volume named twice is opened twice, with connections of its own.
pub fn run_load(urls: &[VolumeUrl], plan: LoadPlan, progress: Progress) -> Result<LoadResult, Error> {
    let urls = urls.to_vec();
    let usual = Config::default();
    let config = Config { spin: plan.spin.unwrap_or(usual.spin), ..usual };
    run_job_with(config, |surroundings| Opened {
        surroundings,
        urls,
        prepare: |_, _| {},
        opening: None,
        volumes: Vec::new(),
        next: Some(Box::new(move |volumes, around| Load::new(&volumes, plan, &around.waker, progress))),
        job: None,
    })?
}

/// Checks that a volume keeps data. **Overwrites** the first bytes of the volume, as many as the plan says.
pub fn check(url: &VolumeUrl, plan: CheckPlan) -> Result<CheckResult, Error> {
    let urls = vec![url.clone()];
    let result = run_job(|surroundings| Opened {
        surroundings,
        urls,
        prepare: |_, _| {},
        opening: None,
        volumes: Vec::new(),
        next: Some(Box::new(move |volumes, around| Check::new(volumes[0].as_ref(), plan, &around.waker))),
        job: None,
    })??;
    result.map_err(|error| Error::Check { url: url.to_string(), error })
}

/// Copies one volume onto another. `progress` is told bytes done and bytes in all.
pub fn copy(
    source: &VolumeUrl,
    target: &VolumeUrl,
    verify: Verify,
    progress: Arc<dyn Fn(u64, u64) + Send + Sync>,
) -> Result<CopyResult, Error> {
    let urls = vec![source.clone(), target.clone()];
    let result = run_job(|surroundings| Opened {
        surroundings,
        urls,
        prepare: size_new_file,
        opening: None,
        volumes: Vec::new(),
        next: Some(Box::new(move |volumes, around| {
            Copy::new((volumes[0].as_ref(), volumes[1].as_ref()), verify, &around.waker, progress)
        })),
        job: None,
    })??;
    result.map_err(Error::Copy)
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
