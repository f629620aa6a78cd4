//! Processor effectiveness: work per 1 % of processor, the publications' own measure.
//!
//! `processor effectiveness = IOPS (or MB/s) / per cent of the machine's processors`. The publications count the host
//! alone, because the adapter's work was invisible to them. Here a software adapter is a process whose time can be
//! counted too, so each figure exists twice: host alone, as published, and host plus adapter. Per cent depends on how many
//! processors a machine has; microseconds per I/O and seconds per GiB do not, and stand beside it.

use crate::result::{Cpu, CpuShare};

/// Bytes of a GiB.
const GIB: f64 = 1_073_741_824.0;
/// Microseconds of a second.
const MICROSECONDS: f64 = 1e6;

/// Whose processor time counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The application and its kernel path, as the publications count.
    Host,
    /// The process that does the protocol's work for the host as well. The same as the host where there is none.
    HostAndAdapter,
}

impl Scope {
    /// Processor seconds of the window within the scope.
    pub fn seconds(self, cpu: &Cpu) -> f64 {
        let adapter = match self {
            Self::Host => None,
            Self::HostAndAdapter => cpu.adapter,
        };
        cpu.host.seconds() + adapter.map_or(0.0, CpuShare::seconds)
    }
}

/// Processor seconds in per cent of all of a machine's processors over a window of `window` seconds.
/// `None` for a window or a machine without extent.
pub fn percent_of_machine(seconds: f64, processors: u32, window: f64) -> Option<f64> {
    quotient(seconds, f64::from(processors) * window).map(|share| share * 100.0)
}

/// Work per second (IOPS, MB/s) per 1 % of processor. `None` when no processor time was seen: that is no infinite
/// effectiveness but a measurement that did not see it.
pub fn effectiveness(work_per_second: f64, percent: f64) -> Option<f64> {
    quotient(work_per_second, percent)
}

/// Microseconds of processor time per I/O. `None` without I/Os.
pub fn microseconds_per_io(seconds: f64, ios: f64) -> Option<f64> {
    quotient(seconds * MICROSECONDS, ios)
}

/// Processor seconds per GiB moved. `None` without bytes.
pub fn seconds_per_gib(seconds: f64, bytes: f64) -> Option<f64> {
    quotient(seconds * GIB, bytes)
}

/// How many times as effective one arm is as another, from what publications print: its change of work and its change of
/// processor use, both in per cent (`+193` and `-29`). `None` when the processor use is said to have vanished.
pub fn relative_from_percentages(work: f64, processor: f64) -> Option<f64> {
    quotient(100.0 + work, 100.0 + processor)
}

fn quotient(dividend: f64, divisor: f64) -> Option<f64> {
    let sound = dividend.is_finite() && divisor.is_finite() && divisor > 0.0;
    sound.then(|| dividend / divisor)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounded as the publications round their derived figures.
    fn hundredths(value: Option<f64>) -> f64 {
        (value.unwrap() * 100.0).round() / 100.0
    }

    #[test]
    fn the_published_claims_follow_from_the_published_percentages() {
        // 8 KB random writes: both at line rate with 65 % less processor; claimed 3.
        assert!((hundredths(relative_from_percentages(0.0, -65.0)) - 2.86).abs() < 1e-9);
        // 4 KB random reads: +193 % IOPS, -29 % processor; claimed 4.1.
        assert!((hundredths(relative_from_percentages(193.0, -29.0)) - 4.13).abs() < 1e-9);
        // 8 KB random reads: +66 % IOPS, -67 % processor; claimed 5.1.
        assert!((hundredths(relative_from_percentages(66.0, -67.0)) - 5.03).abs() < 1e-9);
    }

    #[test]
    fn jetstress_is_one_and_three_quarters_times_as_effective() {
        let software = effectiveness(23_761.995, 26.431).unwrap();
        let offload = effectiveness(34_423.554, 21.465).unwrap();
        assert!((software - 899.0).abs() < 0.05, "{software}");
        assert!((offload - 1603.7).abs() < 0.05, "{offload}");
        assert!((hundredths(Some(offload / software)) - 1.78).abs() < 1e-9);
    }

    #[test]
    fn other_derived_figures_follow_as_well() {
        for (work, processor, derived) in [
            (67.0, -40.0, 2.78),
            (30.0, -27.0, 1.78),
            (66.0, -9.0, 1.82),
            (33.0, -30.0, 1.90),
            (62.0, 13.0, 1.43),
        ] {
            assert!(
                (hundredths(relative_from_percentages(work, processor)) - derived).abs() < 1e-9,
                "{work} {processor}"
            );
        }
    }

    #[test]
    fn the_adapter_counts_only_when_asked_for() {
        let share = |user| CpuShare { user, system: 1.0 };
        let cpu = Cpu { processors: 2, host: share(2.0), adapter: Some(share(4.0)), ..Cpu::default() };
        assert!((Scope::Host.seconds(&cpu) - 3.0).abs() < 1e-9);
        assert!((Scope::HostAndAdapter.seconds(&cpu) - 8.0).abs() < 1e-9);
        let alone = Cpu { adapter: None, ..cpu };
        assert!((Scope::HostAndAdapter.seconds(&alone) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn units_are_those_that_the_names_say() {
        // Half a second in ten on two processors is 2.5 % of the machine.
        assert!((percent_of_machine(0.5, 2, 10.0).unwrap() - 2.5).abs() < 1e-9);
        assert!((microseconds_per_io(0.5, 100_000.0).unwrap() - 5.0).abs() < 1e-9);
        assert!((seconds_per_gib(0.5, 4.0 * 1_073_741_824.0).unwrap() - 0.125).abs() < 1e-9);
    }

    #[test]
    fn what_was_not_seen_is_not_infinite() {
        assert_eq!(effectiveness(1000.0, 0.0), None);
        assert_eq!(microseconds_per_io(1.0, 0.0), None);
        assert_eq!(percent_of_machine(1.0, 0, 1.0), None);
        assert_eq!(relative_from_percentages(10.0, -100.0), None);
        assert_eq!(effectiveness(f64::NAN, 1.0), None);
    }
}
