//! Which programs, versions and procedures there are, and what a call of another hears (RFC 5531 §9).

use super::{AcceptStat, Procedure, VersionRange};

/// One version of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service<T> {
    /// The program's number.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// How many procedures it has: their numbers begin at zero.
    pub procedures: u32,
    /// Whom a call of it goes to.
    pub to: T,
}

/// Whom a call goes to.
///
/// # Errors
/// What its caller hears when there is no such procedure, version or program.
pub fn dispatch<T: Copy>(services: &[Service<T>], call: Procedure) -> Result<T, AcceptStat> {
    let versions = services.iter().filter(|service| service.program == call.program);
    if let Some(service) = versions.clone().find(|service| service.version == call.version) {
        let found = (call.procedure < service.procedures).then_some(service.to);
        return found.ok_or(AcceptStat::ProcedureUnavailable);
    }
    let numbers = versions.map(|service| service.version);
    match (numbers.clone().min(), numbers.max()) {
        (Some(low), Some(high)) => Err(AcceptStat::ProgramMismatch(VersionRange { low, high })),
        _ => Err(AcceptStat::ProgramUnavailable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_its_service_or_its_answer() {
        let services = [
            Service { program: 100_003, version: 4, procedures: 2, to: "nfs 4" },
            Service { program: 100_003, version: 3, procedures: 22, to: "nfs 3" },
            Service { program: 100_005, version: 3, procedures: 6, to: "mount" },
        ];
        let call =
            |program, version, procedure| dispatch(&services, Procedure { program, version, procedure });
        let mismatch = |low, high| Err(AcceptStat::ProgramMismatch(VersionRange { low, high }));
        assert_eq!(call(100_003, 3, 21), Ok("nfs 3"));
        assert_eq!(call(100_003, 4, 1), Ok("nfs 4"));
        assert_eq!(call(100_003, 4, 2), Err(AcceptStat::ProcedureUnavailable));
        assert_eq!(call(100_003, 2, 0), mismatch(3, 4));
        assert_eq!(call(100_005, 1, 0), mismatch(3, 3));
        assert_eq!(call(100_021, 4, 0), Err(AcceptStat::ProgramUnavailable));
        assert_eq!(
            dispatch::<()>(&[], Procedure { program: 1, version: 1, procedure: 0 }),
            Err(AcceptStat::ProgramUnavailable)
        );
    }
}
