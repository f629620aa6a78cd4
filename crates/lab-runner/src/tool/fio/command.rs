//! The command line: options for all sections, then a section for each volume.

use anyhow::{Result, bail};

use super::super::assignment::{Assignment, command_line};
use super::super::sample;
use super::super::settings::{LOG, OFFSETS, Settings};
use super::super::spread::{self, Share};
use super::engine::{engine, escaped, spin};
use super::sample::{Section, looks_at, offsets, verified};
use super::sections::{divide, option};
use super::{LOG_MILLIS, LOG_SECTION, LOGS, OUTPUT};
use crate::arm::Endpoint;
use crate::machine::process::CommandLine;

/// Settings that are put into fio's words here instead of being handed on.
const OURS: &[&str] = &[
    "iodepth",
    "numjobs",
    "size",
    "ioengine",
    "direct",
    "time_based",
    "runtime",
    "ramp_time",
    "group_reporting",
    "rate_iops",
    "rate_iops_per_job",
    "spin",
];
const ENGINE: &str = "libaio";

/// How fio is started.
pub(in crate::tool) fn command(assignment: &Assignment<'_>) -> Result<CommandLine> {
    let settings = Settings(assignment.settings);
    if settings.text("group_reporting", "1") != "1" || settings.text("time_based", "1") != "1" {
        bail!(
            "group_reporting = 0 and time_based = 0 are not for the lab: it needs fio's own percentiles of a whole window; \
             leave them out"
        );
    }
    let (load, log) = divide(settings, assignment.endpoints);
    let shares = spread::over(settings, load)?;
    let mut argv = vec!["fio".to_owned()];
    argv.extend(reporting(assignment));
    let mut own: Vec<String> = settings.verbatim(OURS).map(|(name, value)| option(name, value)).collect();
    own.push(option("direct", settings.text("direct", "1")));
    own.extend(rate(settings, &shares)?);
    own.extend(spin(assignment)?);
    let (mut beside, mut after) = (Vec::new(), Vec::new());
    let block = settings.bytes("bs", 4096)?;
    let jobs = shares.iter().map(|share| share.jobs).sum();
    for (index, (endpoint, share)) in load.iter().zip(&shares).enumerate() {
        let place = place(assignment, endpoint)?.to_vec();
        let size = own_size(settings, "size", endpoint);
        argv.push(option("name", &format!("{LOGS}{index}")));
        argv.extend(place.iter().cloned());
        argv.extend(own.iter().cloned());
        argv.extend(["bw", "iops", "lat"].map(|log| option(&format!("write_{log}_log"), LOGS)));
        argv.extend(size.iter().cloned());
        argv.push(option("iodepth", &share.depth.to_string()));
        argv.push(option("numjobs", &share.jobs.to_string()));
        if looks_at(index) {
            beside.extend(verified(assignment, endpoint, &place));
            let section = Section { place, load: &own, size, share: *share };
            after.extend(offsets(index, &section, jobs, block));
        }
    }
    if let Some(endpoint) = log {
        argv.extend(log_section(assignment, endpoint)?);
    }
    argv.extend(beside);
    if settings.get(OFFSETS).is_some() {
        argv.extend(after);
    }
    Ok(command_line(assignment, argv, OUTPUT))
}

/// What is measured and how it is told. Milliseconds, since fio takes no fractions of a second.
fn reporting(assignment: &Assignment<'_>) -> Vec<String> {
    let millis = |seconds: f64| format!("{:.0}ms", seconds * 1000.0);
    let mut all = vec![
        "--output-format=json+".to_owned(),
        "--eta=never".to_owned(),
        "--lat_percentiles=1".to_owned(),
        "--clat_percentiles=0".to_owned(),
        "--slat_percentiles=0".to_owned(),
        "--percentile_list=50:95:99:99.9:99.99".to_owned(),
        option("log_avg_msec", &LOG_MILLIS.to_string()),
        "--log_unix_epoch=1".to_owned(),
        "--group_reporting=1".to_owned(),
        "--continue_on_error=io".to_owned(),
        "--time_based=1".to_owned(),
        option("runtime", &millis(assignment.runtime)),
    ];
    if assignment.ramp > 0.0 {
        all.push(option("ramp_time", &millis(assignment.ramp)));
    }
    all
}

/// fio's rate holds for each job and each direction; the setting is for the whole load.
fn rate(settings: Settings<'_>, shares: &[Share]) -> Result<Option<String>> {
    if let Some(each) = settings.get("rate_iops_per_job") {
        return Ok(Some(option("rate_iops", each)));
    }
    if settings.get("rate_iops").is_none() {
        return Ok(None);
    }
    let jobs: u64 = shares.iter().map(|share| share.jobs).sum();
    let each = settings.count("rate_iops", 1)? / jobs;
    let mixed = matches!(settings.text("rw", "read"), "rw" | "readwrite" | "randrw");
    let reads = if mixed { each * settings.percent("rwmixread", 50)? / 100 } else { each };
    let writes = if mixed { each - reads } else { each };
    if reads == 0 || writes == 0 {
        bail!(
            "rate_iops = {} is too little for {jobs} jobs and the mix of reads and writes: raise it or take fewer jobs",
            settings.text("rate_iops", "")
        );
    }
    Ok(Some(format!("--rate_iops={reads},{writes}")))
}

/// The engine and where it finds the volume.
fn place(assignment: &Assignment<'_>, endpoint: &Endpoint) -> Result<[String; 2]> {
    let settings = Settings(assignment.settings);
    if let Some(words) = engine(assignment.initiator, assignment.engines, &endpoint.url) {
        return Ok(words);
    }
    let url = endpoint.url.as_str();
    if url.starts_with("nbd://") || url.starts_with("nbd+unix://") {
        return Ok([option("ioengine", "nbd"), option("uri", url)]);
    }
    if url.contains("://") {
        bail!("fio cannot reach {url}: choose an initiator that gives it an NBD export, a file or a device");
    }
    let engine = settings.text("ioengine", ENGINE);
    Ok([option("ioengine", engine), option("filename", &escaped(url))])
}

/// The size that a section uses, where it is set or known; what is verified beside the load lies behind it.
fn own_size(settings: Settings<'_>, name: &str, endpoint: &Endpoint) -> Option<String> {
    let known = (endpoint.size > 0).then_some(endpoint.size);
    let most = sample::verified_from(settings, endpoint).or(known);
    let Some(text) = settings.get(name) else { return most.map(|size| option("size", &size.to_string())) };
    let set = settings.bytes(name, 1).ok();
    let cut = set.zip(sample::verified_from(settings, endpoint)).filter(|(set, from)| set > from);
    Some(option("size", &cut.map_or_else(|| text.to_owned(), |(_, from)| from.to_string())))
}

/// The second section, in a group of its own so that its figures stand alone. Of the load's options only `direct` holds
/// for it too.
fn log_section(assignment: &Assignment<'_>, endpoint: &Endpoint) -> Result<Vec<String>> {
    let settings = Settings(assignment.settings);
    let mut all = vec![
        option("name", LOG_SECTION),
        "--new_group=1".to_owned(),
        option("direct", settings.text("direct", "1")),
    ];
    all.extend(place(assignment, endpoint)?);
    all.extend(own_size(settings, "log_size", endpoint));
    if settings.get("log_rw").is_none() {
        all.push(option("rw", "write"));
    }
    let own = settings.0.iter().filter_map(|(name, value)| Some((name.strip_prefix(LOG)?, value)));
    all.extend(own.filter(|(name, _)| *name != "size").map(|(name, value)| option(name, value)));
    Ok(all)
}
