//! Mode pages (SPC-4 §7.5, SBC-4 §6.5): control, caching, informational exceptions.

use alloc::vec::Vec;

use volume::Features;

use crate::cdb::Cdb;
use crate::device::LogicalUnit;
use crate::page::Page;
use crate::sense::{Additional, Check};

const CACHING: u8 = 0x08;
const CONTROL: u8 = 0x0a;
const EXCEPTIONS: u8 = 0x1c;
const ALL_PAGES: u8 = 0x3f;
const ALL_SUBPAGES: u8 = 0xff;
/// D_SENSE in byte 2 of the control page.
const D_SENSE: u8 = 0x04;
/// SWP in byte 4 of the control page.
const SWP: u8 = 0x08;
/// TAS in byte 5 of the control page: commands that another nexus aborts end with TASK ABORTED.
const TAS: u8 = 0x40;
/// QUEUE ALGORITHM MODIFIER 1: unrestricted reordering, in byte 3 of the control page.
const UNRESTRICTED: u8 = 0x10;
/// WCE in byte 2 of the caching page.
const WCE: u8 = 0x04;
/// WP and DPOFUA in the device-specific parameter.
const WRITE_PROTECTED: u8 = 0x80;
const DPOFUA: u8 = 0x10;

/// What MODE SELECT can change on a logical unit; one per nexus's view, told to others by an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModeState {
    /// Sense data in descriptor format (D_SENSE).
    pub descriptor_sense: bool,
    /// Writes are refused (SWP).
    pub software_write_protect: bool,
}

/// Which values are asked for (the PC field).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Current,
    Changeable,
    Default,
}

/// MODE SENSE (6) and (10) data.
pub(crate) fn sense(cdb: Cdb<'_>, unit: &LogicalUnit, state: ModeState) -> Result<Vec<u8>, Check> {
    let long = cdb.u8(0) == 0x5a;
    let which = match cdb.bits(2, 7, 6) {
        0 => Which::Current,
        1 => Which::Changeable,
        2 => Which::Default,
        _ => return Err(Check::illegal(Additional(0x39, 0x00))),
    };
    let (code, subpage) = (cdb.bits(2, 5, 0), cdb.u8(3));
    let mut pages = Page::new();
    for (known, fill) in PAGES {
        // No page has subpages, so a page with all of them is the page.
        if matches!(subpage, 0 | ALL_SUBPAGES) && (code == ALL_PAGES || code == *known) {
            fill(&mut pages, unit, (which, state));
        }
    }
    if pages.len() == 0 {
        return Err(Check::cdb_field(if subpage == 0 { 2 } else { 3 }));
    }
    let descriptors = if cdb.bit(1, 3) { Vec::new() } else { block_descriptor(unit, long && cdb.bit(1, 4)) };
    let mut page = Page::new();
    let parameter = device_specific(unit, state);
    if long {
        page.u16(0).u8(0).u8(parameter).u8(u8::from(descriptors.len() == 16)).u8(0);
        page.u16(u16::try_from(descriptors.len()).unwrap_or(0));
    } else {
        page.u8(0).u8(0).u8(parameter).u8(u8::try_from(descriptors.len()).unwrap_or(0));
    }
    page.put(&descriptors).put(&pages.take());
    Ok(if long { page.length_u16(0).take() } else { page.length_u8(0).take() })
}

fn device_specific(unit: &LogicalUnit, state: ModeState) -> u8 {
    let protected = state.software_write_protect || unit.features.contains(Features::READ_ONLY);
    DPOFUA | if protected { WRITE_PROTECTED } else { 0 }
}

/// SBC-4 §6.5.2: short, or long with LONGLBA.
fn block_descriptor(unit: &LogicalUnit, long: bool) -> Vec<u8> {
    let geometry = unit.geometry;
    if long {
        return Page::new().u64(geometry.blocks).u32(0).u32(geometry.block_size).take();
    }
    Page::new().u32(wire::saturate::<u32>(geometry.blocks)).u32(geometry.block_size).take()
}

type Fill = fn(&mut Page, &LogicalUnit, (Which, ModeState));

/// Every page in ascending order.
const PAGES: &[(u8, Fill)] = &[(CACHING, caching), (CONTROL, control), (EXCEPTIONS, exceptions)];

/// SBC-4 §6.5.5.
fn caching(page: &mut Page, unit: &LogicalUnit, (which, _): (Which, ModeState)) {
    let cached = which != Which::Changeable && unit.features.contains(Features::VOLATILE_CACHE);
    page.u8(CACHING).u8(0x12).u8(if cached { WCE } else { 0 }).zeros(17);
}

/// SPC-4 §7.5.8.
fn control(page: &mut Page, _unit: &LogicalUnit, (which, state): (Which, ModeState)) {
    let (sense, protect) = match which {
        Which::Current => (state.descriptor_sense, state.software_write_protect),
        Which::Changeable => (true, true),
        Which::Default => (false, false),
    };
    page.u8(CONTROL).u8(0x0a).u8(if sense { D_SENSE } else { 0 });
    page.u8(if which == Which::Changeable { 0 } else { UNRESTRICTED });
    page.u8(if protect { SWP } else { 0 });
    page.u8(if which == Which::Changeable { 0 } else { TAS }).zeros(6);
}

/// SPC-4 §7.5.13.
fn exceptions(page: &mut Page, _unit: &LogicalUnit, _which: (Which, ModeState)) {
    page.u8(EXCEPTIONS).u8(0x0a).zeros(10);
}

/// Reads a MODE SELECT parameter list; nothing is changed unless all of it is right.
pub(crate) fn select(
    list: &[u8],
    long: bool,
    (unit, state): (&LogicalUnit, ModeState),
) -> Result<ModeState, Check> {
    let header = if long { 8 } else { 4 };
    let reader = Cdb(list);
    if list.len() < header {
        return Err(Check::illegal(Additional::PARAMETER_LIST_LENGTH));
    }
    let descriptors = if long { usize::from(reader.u16(6)) } else { usize::from(reader.u8(3)) };
    let mut at = header.saturating_add(descriptors);
    if at > list.len() {
        return Err(Check::illegal(Additional::PARAMETER_LIST_LENGTH));
    }
    let mut state = state;
    while at < list.len() {
        let length = usize::from(reader.u8(at.saturating_add(1))).saturating_add(2);
        let bytes = list
            .get(at..at.saturating_add(length))
            .ok_or(Check::illegal(Additional::PARAMETER_LIST_LENGTH))?;
        state = select_page(bytes, unit, state).ok_or(Check::parameter(u16::try_from(at).unwrap_or(0)))?;
        at = at.saturating_add(length);
    }
    Ok(state)
}

/// What one page changes; `None` when it is unknown or changes what cannot be changed.
fn select_page(bytes: &[u8], unit: &LogicalUnit, state: ModeState) -> Option<ModeState> {
    let reader = Cdb(bytes);
    let code = reader.u8(0) & 0x7f;
    let (_, fill) = PAGES.iter().find(|(known, _)| *known == code)?;
    let wanted = match code {
        CONTROL => ModeState {
            descriptor_sense: reader.u8(2) & D_SENSE != 0,
            software_write_protect: reader.u8(4) & SWP != 0,
        },
        _ => state,
    };
    let mut result = Page::new();
    fill(&mut result, unit, (Which::Current, wanted));
    let expected = result.take();
    let same = expected.get(1..) == bytes.get(1..) && expected.first() == Some(&code);
    same.then_some(wanted)
}
