//! What each command begins with: its checks, and the work or data that follows (SPC-4 §6, SBC-4 §5).

use alloc::boxed::Box;
use alloc::vec::Vec;

use buf::{BufList, SharedBuf};
use volume::reservation::{Command, View};
use volume::{ComparedWrite, Durability, Extent, Operation};

use crate::capacity;
use crate::cdb::{BlockCommand, Cdb};
use crate::command::DataDirection;
use crate::device::{LogicalUnit, TargetDevice};
use crate::inquiry;
use crate::limits;
use crate::lun::encode_lun;
use crate::mode::{self, CdbForm, ModeState};
use crate::opcode::{self, Run};
use crate::page::Page;
use crate::reply::Status;
use crate::reserve;
use crate::sense::{Additional, Check, SenseFormat, SenseKey};
use crate::task::Purpose;
use crate::volume_requests::{Range, ThenVerify, Work};
use crate::vpd;

/// How a command goes on after its checks.
#[derive(Debug)]
pub(crate) enum Begun {
    /// It is done.
    Nothing,
    /// It is done, with a status other than GOOD.
    Status(Status),
    /// It answers with data.
    Data { data: Vec<u8>, allocation: usize },
    /// It needs data of the initiator's; it would move `full` bytes.
    Receive { purpose: Purpose, length: u32, full: u64 },
    /// It needs requests.
    Io(Work),
    /// It changes mode parameters.
    Mode(ModeState),
    /// It changes reservations.
    Reserve(Command),
}

impl Begun {
    pub(crate) fn data(data: Vec<u8>, allocation: usize) -> Self {
        Self::Data { data, allocation }
    }
}

/// What a command may look at.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) device: &'a TargetDevice,
    pub(crate) unit: &'a LogicalUnit,
    pub(crate) mode: ModeState,
    pub(crate) view: &'a View,
    /// Data that the transport announces.
    pub(crate) data: DataDirection,
    /// The unit attention that REQUEST SENSE reports.
    pub(crate) sense: Option<Additional>,
}

/// Begins a command.
pub(crate) fn begin(run: Run, cdb: Cdb<'_>, around: Around<'_>) -> Result<Begun, Check> {
    let (unit, data) = (around.unit, around.data);
    match run {
        Run::TestUnitReady | Run::StartStop => Ok(Begun::Nothing),
        Run::PreventAllow => prevent_allow(cdb),
        Run::RequestSense => Ok(request_sense(cdb, &around)),
        Run::Inquiry => inquire(cdb, &around),
        Run::ModeSelect => mode_select(cdb, data),
        Run::ModeSense => Ok(Begun::data(mode::sense(cdb, unit, around.mode)?, mode_allocation(cdb))),
        Run::ReadCapacity10 => read_capacity_10(cdb, unit),
        Run::ReadCapacity16 => Ok(Begun::data(capacity::long(unit), allocation_u32(cdb, 10))),
        Run::Read => read(cdb, unit),
        Run::Write | Run::WriteAndVerify => write(run, cdb, unit, data),
        Run::Verify => verify(cdb, unit, data),
        Run::Prefetch => prefetch(cdb, unit),
        Run::SynchronizeCache => synchronize_cache(cdb, unit),
        Run::Unmap => unmap(cdb, data),
        Run::WriteSame => write_same(cdb, unit, data),
        Run::CompareAndWrite => compare_and_write(cdb, unit, data),
        Run::LbaStatus => lba_status(cdb, unit),
        Run::ReserveIn => reserve_in(cdb, around.view),
        Run::ReserveOut => reserve_out(cdb, data),
        Run::ReportLuns => report_luns(cdb, around.device),
        Run::ReportOpcodes => Ok(Begun::data(opcode::report(cdb, unit)?, allocation_u32(cdb, 6))),
        Run::ReportFunctions => Ok(report_functions(cdb)),
    }
}

fn allocation_u32(cdb: Cdb<'_>, at: usize) -> usize {
    cdb.u32(at) as usize
}

fn mode_allocation(cdb: Cdb<'_>) -> usize {
    if cdb.u8(0) == 0x5a { usize::from(cdb.u16(7)) } else { usize::from(cdb.u8(4)) }
}

fn prevent_allow(cdb: Cdb<'_>) -> Result<Begun, Check> {
    // The medium cannot be removed, so preventing it changes nothing; values above 1 are obsolete.
    if cdb.bits(4, 1, 0) > 1 { Err(Check::cdb_field(4)) } else { Ok(Begun::Nothing) }
}

fn request_sense(cdb: Cdb<'_>, around: &Around<'_>) -> Begun {
    let check = match around.sense {
        Some(code) => Check::attention(code),
        None => Check::new(SenseKey::NoSense, Additional::NONE),
    };
    Begun::data(check.sense(SenseFormat::selected(cdb.bit(1, 0))).bytes().to_vec(), usize::from(cdb.u8(4)))
}

fn inquire(cdb: Cdb<'_>, around: &Around<'_>) -> Result<Begun, Check> {
    let allocation = usize::from(cdb.u16(3));
    if cdb.bit(1, 0) {
        let page = vpd::page(cdb.u8(2), around.device, around.unit).ok_or(Check::cdb_field(2))?;
        return Ok(Begun::data(page, allocation));
    }
    if cdb.u8(2) != 0 {
        return Err(Check::cdb_field(2));
    }
    Ok(Begun::data(inquiry::standard(Some(around.unit)), allocation))
}

fn mode_select(cdb: Cdb<'_>, data: DataDirection) -> Result<Begun, Check> {
    let form = if cdb.u8(0) == 0x55 { CdbForm::Ten } else { CdbForm::Six };
    // PF must be one and SP zero: pages have the standard's format and nothing is saved.
    if !cdb.bit(1, 4) || cdb.bit(1, 0) {
        return Err(Check::cdb_field(1));
    }
    let length = match form {
        CdbForm::Six => u32::from(cdb.u8(4)),
        CdbForm::Ten => u32::from(cdb.u16(7)),
    };
    parameter_list(Purpose::ModeSelect(form), length, data)
}

/// A command with a parameter list: it needs all of it.
fn parameter_list(purpose: Purpose, length: u32, data: DataDirection) -> Result<Begun, Check> {
    if length > data.announced() {
        return Err(Check::illegal(Additional::PARAMETER_LIST_LENGTH));
    }
    if length > limits::PARAMETER_LIST {
        return Err(Check::illegal(Additional::PARAMETER_LIST_LENGTH));
    }
    Ok(Begun::Receive { purpose, length, full: u64::from(length) })
}

fn read_capacity_10(cdb: Cdb<'_>, unit: &LogicalUnit) -> Result<Begun, Check> {
    // Without PMI the address must be zero (SBC-3 §5.15.2).
    if !cdb.bit(8, 0) && cdb.u32(2) != 0 {
        return Err(Check::cdb_field(2));
    }
    Ok(Begun::data(capacity::short(unit), usize::MAX))
}

/// The blocks that a command names, if they are there.
fn extent_of(command: BlockCommand, unit: &LogicalUnit) -> Result<Extent, Check> {
    let extent = Extent::new(command.lba, u64::from(command.blocks));
    if unit.geometry.check(extent).is_none() || command.lba > unit.geometry.blocks {
        return Err(Check::illegal(Additional::OUT_OF_RANGE));
    }
    Ok(extent)
}

fn checked(cdb: Cdb<'_>, unit: &LogicalUnit) -> Result<(BlockCommand, Extent), Check> {
    let command = BlockCommand::read(cdb);
    // There is no protection information to check (SBC-4 §5.10, table 51).
    if command.protect != 0 {
        return Err(Check::cdb_field(1));
    }
    Ok((command, extent_of(command, unit)?))
}

fn range(extent: Extent, unit: &LogicalUnit) -> Range {
    let block = unit.geometry.block_size;
    let piece = u64::from(unit.limits.max_transfer.checked_div(block).unwrap_or(1));
    Range { next: extent.start, left: extent.blocks, piece, block }
}

fn bytes(extent: Extent, unit: &LogicalUnit) -> u64 {
    extent.blocks.saturating_mul(u64::from(unit.geometry.block_size))
}

/// As [`checked`], with the limit of the Block Limits page on what one command may move.
fn transfer(cdb: Cdb<'_>, unit: &LogicalUnit) -> Result<(BlockCommand, Extent), Check> {
    let (command, extent) = checked(cdb, unit)?;
    if bytes(extent, unit) > limits::TRANSFER_BYTES {
        return Err(Check::cdb_field(BlockCommand::length_field(cdb)));
    }
    Ok((command, extent))
}

fn read(cdb: Cdb<'_>, unit: &LogicalUnit) -> Result<Begun, Check> {
    let (_, extent) = transfer(cdb, unit)?;
    Ok(Begun::Io(Work::Read { range: range(extent, unit), gathered: BufList::new() }))
}

fn durability(fua: bool) -> Durability {
    if fua { Durability::Durable } else { Durability::Cached }
}

fn write(run: Run, cdb: Cdb<'_>, unit: &LogicalUnit, data: DataDirection) -> Result<Begun, Check> {
    let (command, extent) = transfer(cdb, unit)?;
    let then = match (run, cdb.bits(1, 2, 1)) {
        (Run::Write, _) => ThenVerify::No,
        (_, 0) => ThenVerify::Medium,
        (_, 1) => ThenVerify::Bytes,
        _ => return Err(Check::cdb_field(1)),
    };
    let full = bytes(extent, unit);
    // An initiator that announces less than the CDB says gets that much of it written; the transport reports the rest. Only
    // whole blocks can be verified.
    let block = u64::from(unit.geometry.block_size);
    let blocks = extent.blocks.min(u64::from(data.announced()).checked_div(block).unwrap_or(0));
    let (range, start) = (range(Extent::new(extent.start, blocks), unit), extent.start);
    let fua = command.fua && run == Run::Write || run == Run::WriteAndVerify;
    let work = Work::Write { range, start, data: BufList::new(), at: 0, durability: durability(fua), then };
    let taken =
        if run == Run::Write { full.min(u64::from(data.announced())) } else { blocks.saturating_mul(block) };
    let length = wire::bounded::<u32>(taken);
    Ok(Begun::Receive { purpose: Purpose::Write(work), length, full })
}

fn verify(cdb: Cdb<'_>, unit: &LogicalUnit, data: DataDirection) -> Result<Begun, Check> {
    let (_, extent) = transfer(cdb, unit)?;
    let range = range(extent, unit);
    let (single, needed) = match cdb.bits(1, 2, 1) {
        0 => return Ok(Begun::Io(Work::Verify { range })),
        1 => (false, bytes(extent, unit)),
        3 => (true, u64::from(unit.geometry.block_size)),
        _ => return Err(Check::cdb_field(1)),
    };
    if extent.blocks == 0 {
        return Ok(Begun::Nothing);
    }
    if needed > u64::from(data.announced()) {
        return Err(Check::illegal(Additional::INVALID_INFORMATION_UNIT));
    }
    let work = Work::Compare { range, data: BufList::new(), at: 0, repeat: single };
    let length = wire::bounded::<u32>(needed);
    Ok(Begun::Receive { purpose: Purpose::Verify { work, single }, length, full: needed })
}

/// Prefetching is a hint: nothing is read ahead, and CONDITION MET says that all of it would fit (SBC-4 §5.8).
fn prefetch(cdb: Cdb<'_>, unit: &LogicalUnit) -> Result<Begun, Check> {
    extent_of(BlockCommand::read(cdb), unit)?;
    Ok(Begun::Status(Status::ConditionMet))
}

fn synchronize_cache(cdb: Cdb<'_>, unit: &LogicalUnit) -> Result<Begun, Check> {
    extent_of(BlockCommand::read(cdb), unit)?;
    Ok(Begun::Io(Work::Single(Some(Operation::Flush))))
}

fn unmap(cdb: Cdb<'_>, data: DataDirection) -> Result<Begun, Check> {
    // ANCHOR: nothing can be anchored.
    if cdb.bit(1, 0) {
        return Err(Check::cdb_field(1));
    }
    let length = u32::from(cdb.u16(7));
    if length == 0 {
        return Ok(Begun::Nothing);
    }
    parameter_list(Purpose::Unmap, length, data)
}

/// The extents of an UNMAP parameter list (SBC-4 §5.33.2).
fn unmap_extents(list: &[u8], unit: &LogicalUnit) -> Result<Vec<Extent>, Check> {
    let reader = Cdb(list);
    if list.len() < 8 {
        return Err(Check::illegal(Additional::PARAMETER_LIST_LENGTH));
    }
    let told = usize::from(reader.u16(2));
    let there = list.len().saturating_sub(8).min(told);
    let mut extents = Vec::new();
    let mut blocks = 0_u64;
    for index in 0..there.checked_div(16).unwrap_or(0) {
        let at = index.saturating_mul(16).saturating_add(8);
        let extent = Extent::new(reader.u64(at), u64::from(reader.u32(at.saturating_add(8))));
        if unit.geometry.check(extent).is_none() {
            return Err(Check::illegal(Additional::OUT_OF_RANGE));
        }
        blocks = blocks.saturating_add(extent.blocks);
        if extent.blocks > 0 {
            extents.push(extent);
        }
    }
    if blocks > u64::from(limits::UNMAP_BLOCKS) {
        return Err(Check::parameter(8));
    }
    Ok(extents)
}

fn write_same(cdb: Cdb<'_>, unit: &LogicalUnit, data: DataDirection) -> Result<Begun, Check> {
    let (command, mut extent) = checked(cdb, unit)?;
    let long = cdb.u8(0) == 0x93;
    let (anchor, unmap, no_data) = (cdb.bit(1, 4), cdb.bit(1, 3), long && cdb.bit(1, 0));
    if anchor || unmap && !unit.thin() {
        return Err(Check::cdb_field(1));
    }
    if command.blocks == 0 {
        extent.blocks = unit.geometry.blocks.saturating_sub(command.lba);
    }
    if extent.blocks > limits::WRITE_SAME_BLOCKS {
        return Err(Check::cdb_field(if long { 10 } else { 7 }));
    }
    let mut range = range(extent, unit);
    if no_data {
        range.piece = unit.limits.max_discard.max(1);
        return Ok(Begun::Io(Work::Zeroes { range, may_unmap: unmap }));
    }
    let length = unit.geometry.block_size;
    // Whoever announces more or less than one block means another block size than ours: nothing must be written then.
    if data.announced() != length {
        return Err(Check::illegal(Additional::INVALID_INFORMATION_UNIT));
    }
    Ok(Begun::Receive { purpose: Purpose::WriteSame { range, unmap }, length, full: u64::from(length) })
}

fn compare_and_write(cdb: Cdb<'_>, unit: &LogicalUnit, data: DataDirection) -> Result<Begun, Check> {
    if cdb.bits(1, 7, 5) != 0 {
        return Err(Check::cdb_field(1));
    }
    let (lba, blocks) = (cdb.u64(2), u64::from(cdb.u8(13)));
    if blocks > u64::from(limits::compare_and_write_blocks(unit)) {
        return Err(Check::cdb_field(13));
    }
    let extent = Extent::new(lba, blocks);
    if unit.geometry.check(extent).is_none() {
        return Err(Check::illegal(Additional::OUT_OF_RANGE));
    }
    // Data for another number of blocks, such as 256 in a field of eight bits, is a misunderstanding: nothing is compared.
    let needed = bytes(extent, unit).saturating_mul(2);
    if needed != u64::from(data.announced()) {
        return Err(Check::cdb_field(13));
    }
    if blocks == 0 {
        return Ok(Begun::Nothing);
    }
    let purpose = Purpose::CompareAndWrite { lba, blocks, fua: cdb.bit(1, 3) };
    Ok(Begun::Receive { purpose, length: wire::bounded::<u32>(needed), full: needed })
}

fn lba_status(cdb: Cdb<'_>, unit: &LogicalUnit) -> Result<Begun, Check> {
    let lba = cdb.u64(2);
    if lba >= unit.geometry.blocks {
        return Err(Check::illegal(Additional::OUT_OF_RANGE));
    }
    let allocation = allocation_u32(cdb, 10);
    let most =
        allocation.saturating_sub(8).checked_div(16).unwrap_or(0).clamp(1, limits::LBA_STATUS_DESCRIPTORS);
    let (end, queries) = (unit.geometry.blocks, limits::LBA_STATUS_QUERIES);
    Ok(Begun::Io(Work::Allocations { next: lba, end, found: Vec::new(), most, queries, allocation }))
}

fn reserve_in(cdb: Cdb<'_>, view: &View) -> Result<Begun, Check> {
    let data = match cdb.bits(1, 4, 0) {
        0 => reserve::keys(view),
        1 => reserve::reservation(view),
        2 => reserve::capabilities(),
        3 => reserve::full_status(view),
        _ => return Err(Check::cdb_field(1)),
    };
    Ok(Begun::data(data, usize::from(cdb.u16(7))))
}

fn reserve_out(cdb: Cdb<'_>, data: DataDirection) -> Result<Begun, Check> {
    let parameters = reserve::out_parameters(cdb)?;
    parameter_list(Purpose::Reserve(parameters), reserve::OUT_LENGTH, data)
}

/// REPORT LUNS (SPC-4 §6.33).
pub(crate) fn report_luns(cdb: Cdb<'_>, device: &TargetDevice) -> Result<Begun, Check> {
    let select = cdb.u8(2);
    if select > 2 {
        return Err(Check::cdb_field(2));
    }
    let allocation = allocation_u32(cdb, 6);
    if allocation < 16 {
        return Err(Check::cdb_field(6));
    }
    let mut page = Page::new();
    page.u32(0).u32(0);
    for unit in device.units.iter().filter(|_| reports_all_luns(cdb)) {
        page.put(&encode_lun(unit.lun));
    }
    let listed = page.len().saturating_sub(8);
    let mut data = page.take();
    if let Some(place) = data.get_mut(..4) {
        place.copy_from_slice(&wire::bounded::<u32>(listed).to_be_bytes());
    }
    Ok(Begun::data(data, allocation))
}

/// True when a REPORT LUNS asks for more than well-known logical units (SELECT REPORT).
pub(crate) fn reports_all_luns(cdb: Cdb<'_>) -> bool {
    const WELL_KNOWN_ONLY: u8 = 1;
    cdb.u8(2) != WELL_KNOWN_ONLY
}

/// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS (SPC-4 §6.35): ATS, ATSS, CTSS, LURS, TRS.
fn report_functions(cdb: Cdb<'_>) -> Begun {
    const ABORT_AND_RESET: u8 = 0xda;
    let mut page = Page::new();
    page.u8(ABORT_AND_RESET).u8(0).u8(0).u8(0);
    if cdb.bit(2, 7) {
        page.length_u8(3).zeros(12);
        page.length_u8(3);
    }
    Begun::data(page.take(), allocation_u32(cdb, 6))
}

/// Goes on with a command whose data has arrived.
pub(crate) fn with_data(
    purpose: Purpose,
    received: SharedBuf,
    unit: &LogicalUnit,
    mode: ModeState,
) -> Result<Begun, Check> {
    match purpose {
        Purpose::Write(mut work) => {
            if let Work::Write { data, .. } = &mut work {
                *data = BufList::from(received);
            }
            Ok(Begun::Io(work))
        }
        Purpose::Verify { mut work, single } => {
            if let Work::Compare { data, range, .. } = &mut work {
                *data = if single { repeated(&received, range) } else { BufList::from(received) };
            }
            Ok(Begun::Io(work))
        }
        Purpose::CompareAndWrite { lba, blocks, fua } => {
            let half = received.len() / 2;
            let operation = Operation::CompareAndWrite {
                extent: Extent::new(lba, blocks),
                data: Box::new(ComparedWrite {
                    compare: BufList::from(received.slice(..half)),
                    write: BufList::from(received.slice(half..)),
                }),
                durability: durability(fua),
            };
            Ok(Begun::Io(Work::Single(Some(operation))))
        }
        Purpose::Unmap => {
            let extents = unmap_extents(&received, unit)?;
            Ok(Begun::Io(Work::Unmap { extents, done: 0, piece: unit.limits.max_discard }))
        }
        Purpose::WriteSame { mut range, unmap } => {
            if received.iter().all(|&byte| byte == 0) {
                range.piece = unit.limits.max_discard.max(1);
                return Ok(Begun::Io(Work::Zeroes { range, may_unmap: unmap }));
            }
            let pattern = repeated(&received, &mut range);
            Ok(Begun::Io(Work::Repeat { range, pattern }))
        }
        Purpose::ModeSelect(form) => mode::select(&received, form, unit, mode).map(Begun::Mode),
        Purpose::Reserve(parameters) => reserve::out_command(parameters, &received).map(Begun::Reserve),
    }
}

/// One block, as often as a piece needs it; the range's piece is made as long as that.
fn repeated(block: &SharedBuf, range: &mut Range) -> BufList {
    let size = wire::widen(block.len()).max(1);
    let most = limits::REPEATED_BYTES.checked_div(size).unwrap_or(1).max(1);
    range.piece = range.piece.min(most).min(range.left.max(1));
    let mut list = BufList::new();
    for _ in 0..range.piece {
        list.push(block.clone());
    }
    list
}
