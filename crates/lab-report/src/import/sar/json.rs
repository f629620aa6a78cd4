//! `sadf -j`: hosts, their samples, and in each sample an object for every activity.

use anyhow::Result;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::super::source::Source;
use super::machine::{Host, Hosts, Of, Sample, too_many};

pub(super) fn read(source: &Source) -> Result<Hosts> {
    let document: Value = serde_json::from_str(&source.text).map_err(|error| {
        let line = error.line().max(1);
        source.error(line, format_args!("no whole JSON ({error}): the file is cut short; copy it again"))
    })?;
    let Some(found) = document.pointer("/sysstat/hosts").and_then(Value::as_array) else {
        return Err(source.error(1, "no sysstat.hosts: give what 'sadf -j FILE -- -u -d -b -n DEV' writes"));
    };
    let mut hosts = Hosts::new();
    for one in found {
        let name = one.get("nodename").and_then(Value::as_str).unwrap_or("unknown");
        let host = hosts.entry(name.to_owned()).or_default();
        let processors = one.get("number-of-cpus").and_then(Value::as_u64);
        host.processors = processors.and_then(|count| count.try_into().ok()).unwrap_or(0);
        let samples = one.get("statistics").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for statistics in samples {
            add(source, host, statistics)?;
        }
    }
    if hosts.values().all(|host| host.samples.is_empty()) {
        return Err(source.ends_before("the first sample with a time"));
    }
    hosts.retain(|_, host| !host.samples.is_empty());
    Ok(hosts)
}

fn add(source: &Source, host: &mut Host, statistics: &Value) -> Result<()> {
    let stamp = |name: &str| statistics.pointer(&format!("/timestamp/{name}"));
    let text = |name: &str| stamp(name).and_then(Value::as_str);
    let Some(at) = text("date").zip(text("time")).and_then(|(date, time)| moment(date, time)) else {
        return Ok(());
    };
    if host.began.is_none() {
        let interval = stamp("interval").and_then(Value::as_i64).unwrap_or(0);
        host.began = at.checked_sub(SignedDuration::from_secs(interval)).ok();
    }
    let Some(sample) = host.sample(at) else { return Err(too_many(source, 1)) };
    let each = |name: &str| {
        statistics.pointer(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    };
    for processors in each("/cpu-load").iter().chain(each("/cpu-load-all")) {
        if processors.get("cpu").and_then(Value::as_str) == Some("all") {
            take(sample, Of::Processors, processors);
        }
    }
    for disk in each("/disk") {
        let name = disk.get("disk-device").and_then(Value::as_str).unwrap_or_default();
        take(sample, Of::Disk(name), disk);
        let figure = |name: &str| disk.get(name).and_then(Value::as_f64);
        if let (Some(transfers), Some(wait)) = (figure("tps"), figure("await")) {
            sample.wait(name, transfers, wait);
        }
    }
    for interface in each("/network/net-dev") {
        take(
            sample,
            Of::Interface(interface.get("iface").and_then(Value::as_str).unwrap_or_default()),
            interface,
        );
    }
    for requests in ["/io/io-reads", "/io/io-writes"] {
        take(sample, Of::Requests, statistics.pointer(requests).unwrap_or(&Value::Null));
    }
    Ok(())
}

fn take(sample: &mut Sample, of: Of<'_>, figures: &Value) {
    for (name, value) in figures.as_object().into_iter().flat_map(Map::iter) {
        if let Some(value) = value.as_f64() {
            sample.take(of, name, value);
        }
    }
}

fn moment(date: &str, time: &str) -> Option<Timestamp> {
    let at = DateTime::strptime("%Y-%m-%d %H:%M:%S", format!("{date} {time}")).ok()?;
    at.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}
