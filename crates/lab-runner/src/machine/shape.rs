//! What shapes the links of an arm, read back from the kernel: nobody but the lab may change it while the arm is compared.
//!
//! A shaper that somebody sets on one arm's link, or on loopback, makes that arm slow and shows in none of its counters. So the queueing
//! disciplines are read when an arm stands, and again after each of its measurements.

use std::collections::BTreeMap;
use std::time::Duration;

use super::program;
use super::topology::Hosts;

/// How long one command may take.
const LIMIT: Duration = Duration::from_secs(10);
/// What stands for the machine itself, whose loopback is read.
const MACHINE: &str = "";

/// Queueing disciplines by namespace, as `tc-show` tells them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shape(BTreeMap<String, Vec<String>>);

impl Shape {
    /// Of the hosts of an arm, and of what stands between them. Empty where there is no `tc` to ask.
    pub fn of(hosts: &Hosts) -> Self {
        let ends = std::iter::once(&hosts.target).chain(&hosts.initiators);
        let ends = ends.map(|host| host.namespace.as_deref().unwrap_or(MACHINE));
        Self::read(ends.chain(hosts.switch.as_deref()).chain(hosts.gateway.as_deref()))
    }

    fn read<'a>(namespaces: impl Iterator<Item = &'a str>) -> Self {
        let told = namespaces.filter_map(|namespace| Some((namespace.to_owned(), disciplines(namespace)?)));
        Self(told.collect())
    }

    /// What is no longer as it was, in words.
    pub fn change(&self) -> Option<String> {
        self.against(&Self::read(self.0.keys().map(String::as_str)))
    }

    /// A namespace that cannot be asked any more is the arm's end, not a change of its link.
    fn against(&self, now: &Self) -> Option<String> {
        self.0.iter().find_map(|(namespace, before)| {
            let after = now.0.get(namespace).filter(|after| *after != before)?;
            let place = if namespace == MACHINE { "loopback" } else { namespace.as_str() };
            Some(format!(
                "somebody else shaped the link ({place}): {} became {}",
                words(before, after),
                words(after, before)
            ))
        })
    }
}

/// The disciplines that only `own` has.
fn words(own: &[String], other: &[String]) -> String {
    let alone: Vec<&str> = own.iter().filter(|line| !other.contains(line)).map(String::as_str).collect();
    if alone.is_empty() { "nothing".to_owned() } else { alone.join("; ") }
}

/// `None` where `tc` is not there or does not answer.
fn disciplines(namespace: &str) -> Option<Vec<String>> {
    program::find("tc")?;
    let argv: &[&str] = match namespace {
        MACHINE => &["tc", "qdisc", "show", "dev", "lo"],
        _ => &["tc", "-n", namespace, "qdisc", "show"],
    };
    program::output(argv, LIMIT).ok().map(|text| settled(&text))
}

/// The lines without what changes by itself: how many refer to a discipline.
fn settled(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        if let Some(place) = words.iter().position(|word| *word == "refcnt") {
            words.drain(place..words.len().min(place + 2));
        }
        words.join(" ")
    };
    text.lines().map(line).filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT: &str = "qdisc noqueue 0: dev lo root refcnt 2 \n\
        qdisc tbf 8001: dev link0 root refcnt 2 rate 5Gbit burst 625000b lat 20ms \n";

    fn shape(text: &str) -> Shape {
        Shape(BTreeMap::from([("lab7-0t".to_owned(), settled(text))]))
    }

    #[test]
    fn a_shaper_that_somebody_slows_or_adds_is_named() {
        let built = shape(BUILT);
        assert_eq!(built.against(&shape(&BUILT.replace("refcnt 2", "refcnt 5"))), None);
        let slowed = built.against(&shape(&BUILT.replace("5Gbit", "1Gbit"))).unwrap();
        assert_eq!(
            slowed,
            "somebody else shaped the link (lab7-0t): qdisc tbf 8001: dev link0 root rate 5Gbit burst 625000b lat 20ms became \
             qdisc tbf 8001: dev link0 root rate 1Gbit burst 625000b lat 20ms"
        );
        let added = format!("{BUILT}qdisc ingress ffff: dev link0 parent ffff:fff1 ---------------- \n");
        let added = built.against(&shape(&added)).unwrap();
        assert!(added.contains("nothing became qdisc ingress ffff:"), "{added}");
        assert_eq!(built.against(&Shape::default()), None, "a namespace that is gone is no shaper");
    }

    #[test]
    fn this_machine_s_loopback_stays_as_it_is() {
        let shape = Shape::read([MACHINE].into_iter());
        assert_eq!(shape.change(), None);
        assert_eq!(shape.0.len(), usize::from(program::find("tc").is_some()));
    }
}
