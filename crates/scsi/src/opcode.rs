//! Every command that is supported: one table for dispatch, REPORT SUPPORTED OPERATION CODES and reservations.

use alloc::vec::Vec;

use volume::Features;

use crate::cdb::Cdb;
use crate::device::LogicalUnit;
use crate::page::Page;
use crate::sense::Check;

/// What a reservation of somebody else's must leave for the command to run (SPC-4 table 67, SBC-4 table 10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing: it is always allowed.
    Nothing,
    /// Reading.
    Read,
    /// Writing.
    Write,
}

/// Which handler runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    TestUnitReady,
    RequestSense,
    Inquiry,
    ModeSelect,
    ModeSense,
    StartStop,
    PreventAllow,
    ReadCapacity10,
    ReadCapacity16,
    Read,
    Write,
    WriteAndVerify,
    Verify,
    Prefetch,
    SynchronizeCache,
    Unmap,
    WriteSame,
    CompareAndWrite,
    LbaStatus,
    ReserveIn,
    ReserveOut,
    ReportLuns,
    ReportOpcodes,
    ReportFunctions,
}

/// A command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) opcode: u8,
    /// The service action, for operation codes that have one.
    pub(crate) action: Option<u8>,
    /// The bits that are looked at, byte by byte (SPC-4 §6.34.4); its length is the CDB's.
    usage: &'static [u8],
    needs: Needs,
    pub(crate) run: Run,
    /// Features without which the command is not offered.
    with: Features,
}

impl Entry {
    /// The same for one service action of the operation code.
    const fn with_action(self, action: u8) -> Self {
        let Self { opcode, usage, needs, run, with, .. } = self;
        Self { opcode, action: Some(action), usage, needs, run, with }
    }

    /// What the command needs of a reservation. Of two commands only the harmless half is always allowed: starting, and allowing
    /// the medium to be removed.
    pub(crate) fn needs(&self, cdb: Cdb<'_>) -> Needs {
        match self.run {
            Run::StartStop if !cdb.bit(4, 0) || cdb.bits(4, 7, 4) != 0 => Needs::Write,
            Run::PreventAllow if cdb.bits(4, 1, 0) != 0 => Needs::Write,
            _ => self.needs,
        }
    }

    /// True when the command writes to the medium, or to what describes it.
    pub(crate) fn writes(&self) -> bool {
        self.needs == Needs::Write
    }
}

const fn entry(opcode: u8, usage: &'static [u8], needs: Needs, run: Run) -> Entry {
    Entry { opcode, action: None, usage, needs, run, with: Features::empty() }
}

const fn only_with(with: Features, entry: Entry) -> Entry {
    Entry {
        opcode: entry.opcode,
        action: entry.action,
        usage: entry.usage,
        needs: entry.needs,
        run: entry.run,
        with,
    }
}

const RW6: &[u8] = &[0xff, 0x1f, 0xff, 0xff, 0xff, 0];
const RW10: &[u8] = &[0xff, 0x18, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0];
const RW12: &[u8] = &[0xff, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0];
const RW16: &[u8] =
    &[0xff, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0];
const VERIFY10: &[u8] = &[0xff, 0x16, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0];
const VERIFY12: &[u8] = &[0xff, 0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0];
const VERIFY16: &[u8] =
    &[0xff, 0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0];
const FETCH10: &[u8] = &[0xff, 0x02, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0];
const FETCH16: &[u8] =
    &[0xff, 0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0];
const SAME10: &[u8] = &[0xff, 0x08, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0];
const SAME16: &[u8] =
    &[0xff, 0x09, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0];
const RESERVE_IN: &[u8] = &[0xff, 0x1f, 0, 0, 0, 0, 0, 0xff, 0xff, 0];
const RESERVE_OUT: &[u8] = &[0xff, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0];
const SERVICE_IN_16: &[u8] = &[0xff, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0];
const LBA_STATUS: &[u8] =
    &[0xff, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0];
const REPORT_CODES: &[u8] = &[0xff, 0x1f, 0x87, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0];
const REPORT_TMF: &[u8] = &[0xff, 0x1f, 0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0];
const CAW: &[u8] = &[0xff, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0xff, 0, 0];

/// All commands, by operation code and service action.
pub(crate) const TABLE: &[Entry] = &[
    entry(0x00, &[0xff, 0, 0, 0, 0, 0], Needs::Nothing, Run::TestUnitReady),
    entry(0x03, &[0xff, 0x01, 0, 0, 0xff, 0], Needs::Nothing, Run::RequestSense),
    entry(0x08, RW6, Needs::Read, Run::Read),
    entry(0x0a, RW6, Needs::Write, Run::Write),
    entry(0x12, &[0xff, 0x01, 0xff, 0xff, 0xff, 0], Needs::Nothing, Run::Inquiry),
    entry(0x15, &[0xff, 0x11, 0, 0, 0xff, 0], Needs::Write, Run::ModeSelect),
    entry(0x1a, &[0xff, 0x08, 0xff, 0xff, 0xff, 0], Needs::Read, Run::ModeSense),
    entry(0x1b, &[0xff, 0x01, 0, 0x0f, 0xf7, 0], Needs::Nothing, Run::StartStop),
    entry(0x1e, &[0xff, 0, 0, 0, 0x03, 0], Needs::Nothing, Run::PreventAllow),
    entry(0x25, &[0xff, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0x01, 0], Needs::Nothing, Run::ReadCapacity10),
    entry(0x28, RW10, Needs::Read, Run::Read),
    entry(0x2a, RW10, Needs::Write, Run::Write),
    entry(0x2e, VERIFY10, Needs::Write, Run::WriteAndVerify),
    entry(0x2f, VERIFY10, Needs::Read, Run::Verify),
    entry(0x34, FETCH10, Needs::Read, Run::Prefetch),
    entry(0x35, FETCH10, Needs::Write, Run::SynchronizeCache),
    entry(0x41, SAME10, Needs::Write, Run::WriteSame),
    only_with(
        Features::DISCARD,
        entry(0x42, &[0xff, 0x01, 0, 0, 0, 0, 0, 0xff, 0xff, 0], Needs::Write, Run::Unmap),
    ),
    entry(0x55, &[0xff, 0x11, 0, 0, 0, 0, 0, 0xff, 0xff, 0], Needs::Write, Run::ModeSelect),
    entry(0x5a, &[0xff, 0x18, 0xff, 0xff, 0, 0, 0, 0xff, 0xff, 0], Needs::Read, Run::ModeSense),
    entry(0x5e, RESERVE_IN, Needs::Nothing, Run::ReserveIn).with_action(0x00),
    entry(0x5e, RESERVE_IN, Needs::Nothing, Run::ReserveIn).with_action(0x01),
    entry(0x5e, RESERVE_IN, Needs::Nothing, Run::ReserveIn).with_action(0x02),
    entry(0x5e, RESERVE_IN, Needs::Nothing, Run::ReserveIn).with_action(0x03),
    entry(0x5f, RESERVE_OUT, Needs::Nothing, Run::ReserveOut).with_action(0x00),
    entry(0x5f, RESERVE_OUT, Needs::Nothing, Run::ReserveOut).with_action(0x01),
    entry(0x5f, RESERVE_OUT, Needs::Nothing, Run::ReserveOut).with_action(0x02),
    entry(0x5f, RESERVE_OUT, Needs::Nothing, Run::ReserveOut).with_action(0x03),
    entry(0x5f, RESERVE_OUT, Needs::Nothing, Run::ReserveOut).with_action(0x04),
    entry(0x5f, RESERVE_OUT, Needs::Nothing, Run::ReserveOut).with_action(0x05),
    entry(0x5f, RESERVE_OUT, Needs::Nothing, Run::ReserveOut).with_action(0x06),
    entry(0x88, RW16, Needs::Read, Run::Read),
    only_with(Features::COMPARE, entry(0x89, CAW, Needs::Write, Run::CompareAndWrite)),
    entry(0x8a, RW16, Needs::Write, Run::Write),
    entry(0x8e, VERIFY16, Needs::Write, Run::WriteAndVerify),
    entry(0x8f, VERIFY16, Needs::Read, Run::Verify),
    entry(0x90, FETCH16, Needs::Read, Run::Prefetch),
    entry(0x91, FETCH16, Needs::Write, Run::SynchronizeCache),
    entry(0x93, SAME16, Needs::Write, Run::WriteSame),
    entry(0x9e, SERVICE_IN_16, Needs::Nothing, Run::ReadCapacity16).with_action(0x10),
    only_with(Features::ALLOCATION, entry(0x9e, LBA_STATUS, Needs::Read, Run::LbaStatus).with_action(0x12)),
    entry(0xa0, &[0xff, 0, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], Needs::Nothing, Run::ReportLuns),
    entry(0xa3, REPORT_CODES, Needs::Read, Run::ReportOpcodes).with_action(0x0c),
    entry(0xa3, REPORT_TMF, Needs::Read, Run::ReportFunctions).with_action(0x0d),
    entry(0xa8, RW12, Needs::Read, Run::Read),
    entry(0xaa, RW12, Needs::Write, Run::Write),
    entry(0xae, VERIFY12, Needs::Write, Run::WriteAndVerify),
    entry(0xaf, VERIFY12, Needs::Read, Run::Verify),
];

/// What the table says of a CDB.
pub(crate) enum Lookup {
    /// It is supported.
    Found(&'static Entry),
    /// The operation code is, its service action is not.
    NoAction,
    /// The operation code is not.
    NoOpcode,
}

/// The commands of a unit.
fn offered(unit: &LogicalUnit) -> impl Iterator<Item = &'static Entry> + '_ {
    TABLE.iter().filter(|entry| unit.features.contains(entry.with))
}

/// The entries of each operation code: every command is looked up, and most would be found far behind the beginning of the table.
static BY_OPCODE: [&[Entry]; 256] = by_opcode();

const fn by_opcode() -> [&'static [Entry]; 256] {
    let mut found: [&[Entry]; 256] = [&[]; 256];
    let mut rest = TABLE;
    while let [first, ..] = rest {
        let mut count = 1;
        while count < rest.len() && rest[count].opcode == first.opcode {
            count += 1;
        }
        (found[first.opcode as usize], rest) = rest.split_at(count);
    }
    found
}

/// Looks a command up.
pub(crate) fn find(cdb: Cdb<'_>, unit: &LogicalUnit) -> Lookup {
    let (opcode, service) = (cdb.u8(0), cdb.bits(1, 4, 0));
    let entries = BY_OPCODE.get(usize::from(opcode)).copied().unwrap_or_default();
    let mut answer = Lookup::NoOpcode;
    for entry in entries.iter().filter(|entry| unit.features.contains(entry.with)) {
        if entry.action.is_none_or(|action| action == service) {
            return Lookup::Found(entry);
        }
        answer = Lookup::NoAction;
    }
    answer
}

/// REPORT SUPPORTED OPERATION CODES data (SPC-4 §6.34).
pub(crate) fn report(cdb: Cdb<'_>, unit: &LogicalUnit) -> Result<Vec<u8>, Check> {
    let timeouts = cdb.bit(2, 7);
    let (opcode, service) = (cdb.u8(3), cdb.u16(4));
    let of_opcode = |entry: &&Entry| entry.opcode == opcode;
    let same = |entry: &Entry| entry.action.map(u16::from) == Some(service);
    let has_actions = offered(unit).filter(of_opcode).any(|entry| entry.action.is_some());
    match cdb.bits(2, 2, 0) {
        0 => Ok(report_all(unit, timeouts)),
        1 if has_actions => Err(Check::cdb_field(2)),
        1 => Ok(report_one(offered(unit).find(of_opcode), timeouts)),
        2 if !has_actions && offered(unit).any(|entry| entry.opcode == opcode) => Err(Check::cdb_field(2)),
        2 => Ok(report_one(offered(unit).filter(of_opcode).find(|entry| same(entry)), timeouts)),
        3 if has_actions => {
            Ok(report_one(offered(unit).filter(of_opcode).find(|entry| same(entry)), timeouts))
        }
        3 => Ok(report_one(offered(unit).filter(of_opcode).find(|_| service == 0), timeouts)),
        _ => Err(Check::cdb_field(2)),
    }
}

/// A command timeouts descriptor that promises nothing.
fn timeouts_descriptor(page: &mut Page) {
    page.u16(10).zeros(10);
}

fn report_all(unit: &LogicalUnit, timeouts: bool) -> Vec<u8> {
    let mut page = Page::new();
    page.u32(0);
    for entry in offered(unit) {
        let flags = u8::from(entry.action.is_some()) | if timeouts { 2 } else { 0 };
        page.u8(entry.opcode).u8(0).u16(u16::from(entry.action.unwrap_or(0))).u8(0).u8(flags);
        page.u16(u16::try_from(entry.usage.len()).unwrap_or(0));
        if timeouts {
            timeouts_descriptor(&mut page);
        }
    }
    page.length_u32(0).take()
}

fn report_one(entry: Option<&Entry>, timeouts: bool) -> Vec<u8> {
    /// SUPPORT: not supported; supported as the standard says.
    const ABSENT: u8 = 1;
    const STANDARD: u8 = 3;
    let mut page = Page::new();
    let Some(entry) = entry else { return page.u8(0).u8(ABSENT).u16(0).take() };
    page.u8(0).u8(STANDARD | if timeouts { 0x80 } else { 0 });
    page.u16(u16::try_from(entry.usage.len()).unwrap_or(0));
    for (at, mask) in entry.usage.iter().enumerate() {
        // The operation code and the service action stand as they are; elsewhere, the bits that count.
        page.u8(match (at, entry.action) {
            (0, _) => entry.opcode,
            (1, Some(action)) => action,
            _ => *mask,
        });
    }
    if timeouts {
        timeouts_descriptor(&mut page);
    }
    page.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_its_lengths_are_the_groups() {
        for pair in TABLE.windows(2) {
            assert!((pair[0].opcode, pair[0].action) < (pair[1].opcode, pair[1].action));
        }
        for entry in TABLE {
            assert_eq!(entry.usage.len(), Cdb::fixed_length(entry.opcode), "{:#x}", entry.opcode);
            assert_eq!(entry.usage[0], 0xff);
        }
    }
}
