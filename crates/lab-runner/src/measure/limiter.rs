//! Which resource was at its end: named only when it was measured to be.
//!
//! Candidates are the processors to which sides are bound, the busiest thread of a side that is not, the whole machine, the
//! link and devices. What no candidate explains stays unnamed: a report must not guess. A side that polls is busy with
//! nothing too, so that its processors prove nothing; the caller says which sides do.

use std::collections::{BTreeMap, BTreeSet};

use crate::measure::cpu::percent;
use crate::measure::limits::{LIMITING_PERCENT, OWN_SHARE};
use crate::measure::side::Role;
use crate::measure::window::Counted;
use lab_model::result::CpuShare;
use lab_model::statistics::number::real;

/// Something of which there is only so much.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// In words, such as `processor 1 (target)`.
    pub name: String,
    /// How much of it was used.
    pub percent: f64,
}

/// Per cent within which resources are used alike: which of them limited, the measurement does not say.
const TIE_PERCENT: f64 = 3.0;

/// What limited, in words, such as `processor 1 (target) 97 %`; `None` if nothing that was measured was above 90 %. Resources that
/// were used as much are all named.
pub fn limiter(resources: &[Resource]) -> Option<String> {
    let mut used: Vec<&Resource> =
        resources.iter().filter(|resource| resource.percent > LIMITING_PERCENT).collect();
    used.sort_by(|one, other| other.percent.total_cmp(&one.percent));
    let most = used.first()?.percent;
    let tied = used.iter().take_while(|resource| resource.percent >= most - TIE_PERCENT);
    let names: Vec<String> =
        tied.map(|resource| format!("{} {:.0} %", resource.name, resource.percent)).collect();
    Some(names.join(" or "))
}

/// All resources of a window. `payload` is what the link carries in one direction, payload bytes per second, if it is
/// limited; `polling` are the sides that are busy with nothing too.
pub fn resources(counted: &Counted, payload: Option<f64>, polling: &[Role]) -> Vec<Resource> {
    let mut all = processors(counted, polling);
    all.extend(payload.and_then(|payload| link(counted, payload)));
    let device =
        |(name, percent): (&String, &f64)| Resource { name: format!("device {name}"), percent: *percent };
    all.extend(counted.devices.iter().map(device));
    all
}

/// Processors of bound sides, threads of the others, and the machine.
fn processors(counted: &Counted, polling: &[Role]) -> Vec<Resource> {
    let polls = |side: &str| polling.iter().any(|role| role.name() == side);
    let mut sides: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
    for (side, processors) in &counted.bound {
        for processor in processors {
            sides.entry(*processor).or_default().insert(side);
        }
    }
    let bound = sides.iter().filter(|(_, sides)| !sides.iter().any(|side| polls(side)));
    let bound = bound.filter_map(|(processor, sides)| {
        let sides: Vec<&str> = sides.iter().copied().collect();
        let times = counted.machine.each.get(processor)?;
        let others = if shared(counted, *processor, times.busy()) { " and others" } else { "" };
        let name = format!("processor {processor} ({}{others})", sides.join(", "));
        Some(Resource { name, percent: times.percent() })
    });
    let free = counted
        .busiest
        .iter()
        .filter(|thread| !polls(thread.side) && !counted.bound.contains_key(thread.side));
    let free = free.map(|thread| Resource {
        name: format!("one processor (thread {} of the {})", thread.thread, thread.side),
        percent: thread.percent,
    });
    let whole = Resource { name: "all processors".to_owned(), percent: counted.machine.all.percent() };
    bound.chain(free).chain(Some(whole).filter(|_| polling.is_empty())).collect()
}

/// Whether a processor that was busy for so many seconds did much for others than the sides that are bound to it. What a
/// side with several processors spent on this one is not known; then nothing is said.
fn shared(counted: &Counted, processor: usize, busy: f64) -> bool {
    let cpu = &counted.cpu;
    let shares = BTreeMap::from([("host", Some(cpu.host)), ("adapter", cpu.adapter), ("target", cpu.target)]);
    let bound = || counted.bound.iter().filter(|(_, processors)| processors.contains(&processor));
    let spent = bound().filter_map(|(side, _)| shares.get(side).copied().flatten()).map(CpuShare::seconds);
    bound().all(|(_, processors)| processors.len() == 1) && spent.sum::<f64>() < busy * OWN_SHARE
}

/// The busier direction of the link. Headers of small packets count too, hence no more than 100 % is shown.
fn link(counted: &Counted, payload: f64) -> Option<Resource> {
    let network = counted.network?;
    let (bytes, direction) = if network.sent > network.received {
        (network.sent, "toward the target")
    } else {
        (network.received, "from the target")
    };
    let percent = percent(real(bytes), payload * counted.seconds).min(100.0);
    Some(Resource { name: format!("link {direction}"), percent })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::cpu::Machine;
    use crate::measure::threads::Busiest;
    use lab_model::result::{Cpu, Network};

    /// Two processors for two seconds, busy per cent of each.
    fn counted(first: u32, second: u32) -> Counted {
        let line = |name: &str, busy: u32, of: u32| format!("{name} {busy} 0 0 {} 0 0 0 0\n", of - busy);
        let text = line("cpu ", first + second, 200) + &line("cpu0", first, 100) + &line("cpu1", second, 100);
        Counted {
            from: 0.0,
            seconds: 2.0,
            cpu: Cpu {
                host: CpuShare { user: f64::from(first) / 100.0, system: 0.0 },
                target: Some(CpuShare { user: f64::from(second) / 100.0, system: 0.0 }),
                ..Cpu::default()
            },
            memory: BTreeMap::new(),
            network: None,
            nodes: Vec::new(),
            volume: BTreeMap::new(),
            kernel: BTreeMap::new(),
            devices: BTreeMap::new(),
            machine: Machine::parse(&text, 100).unwrap(),
            intervals: Vec::new(),
            busiest: Vec::new(),
            bound: BTreeMap::new(),
            flags: Vec::new(),
        }
    }

    fn busiest(side: &'static str, percent: f64) -> Busiest {
        Busiest { side, thread: "worker".to_owned(), percent }
    }

    #[test]
    fn a_bound_sides_processor() {
        let mut counted = counted(50, 97);
        counted.bound.insert("target", vec![1]);
        counted.bound.insert("host", vec![0]);
        assert_eq!(limiter(&resources(&counted, None, &[])).unwrap(), "processor 1 (target) 97 %");
        counted.bound.insert("host", vec![1]);
        assert_eq!(limiter(&resources(&counted, None, &[])).unwrap(), "processor 1 (host, target) 97 %");
        assert_eq!(limiter(&resources(&counted, None, &[Role::Target])), None);
    }

    #[test]
    fn a_processor_that_others_use_is_said_to_be_shared() {
        let mut counted = counted(50, 97);
        counted.bound.insert("target", vec![1]);
        counted.cpu.target = Some(CpuShare { user: 0.3, system: 0.0 });
        assert_eq!(limiter(&resources(&counted, None, &[])).unwrap(), "processor 1 (target and others) 97 %");
        counted.bound.insert("target", vec![0, 1]);
        assert_eq!(limiter(&resources(&counted, None, &[])).unwrap(), "processor 1 (target) 97 %");
    }

    #[test]
    fn one_busy_thread_of_a_free_side() {
        let mut counted = counted(60, 60);
        counted.busiest = vec![busiest("host", 20.0), busiest("target", 99.0)];
        let expected = "one processor (thread worker of the target) 99 %";
        assert_eq!(limiter(&resources(&counted, None, &[])).unwrap(), expected);
        assert_eq!(limiter(&resources(&counted, None, &[Role::Target])), None);
    }

    #[test]
    fn the_whole_machine() {
        assert_eq!(limiter(&resources(&counted(95, 95), None, &[])).unwrap(), "all processors 95 %");
        assert_eq!(limiter(&resources(&counted(95, 95), None, &[Role::Host])), None);
    }

    #[test]
    fn the_link_by_its_busier_direction_if_its_rate_is_known() {
        let mut counted = counted(10, 10);
        counted.network = Some(Network { sent: 30, received: 190, ..Network::default() });
        assert_eq!(limiter(&resources(&counted, Some(100.0), &[])).unwrap(), "link from the target 95 %");
        assert_eq!(limiter(&resources(&counted, None, &[])), None);
        counted.network = Some(Network { sent: 230, received: 190, ..Network::default() });
        assert_eq!(limiter(&resources(&counted, Some(100.0), &[])).unwrap(), "link toward the target 100 %");
    }

    #[test]
    fn resources_that_are_used_alike_are_all_named() {
        let mut counted = counted(10, 98);
        counted.bound.insert("target", vec![1]);
        counted.network = Some(Network { sent: 0, received: 192, ..Network::default() });
        let named = limiter(&resources(&counted, Some(100.0), &[])).unwrap();
        assert_eq!(named, "processor 1 (target) 98 % or link from the target 96 %");
        counted.network = Some(Network { sent: 0, received: 186, ..Network::default() });
        assert_eq!(limiter(&resources(&counted, Some(100.0), &[])).unwrap(), "processor 1 (target) 98 %");
    }

    #[test]
    fn a_device_and_nothing_at_all() {
        let mut counted = counted(10, 10);
        assert_eq!(limiter(&resources(&counted, Some(100.0), &[])), None);
        counted.devices.insert("sdb".to_owned(), 98.0);
        assert_eq!(limiter(&resources(&counted, None, &[])).unwrap(), "device sdb 98 %");
        // At the threshold itself nothing is said.
        counted.devices.insert("sdb".to_owned(), 90.0);
        assert_eq!(limiter(&resources(&counted, None, &[])), None);
        assert_eq!(limiter(&[]), None);
    }
}
