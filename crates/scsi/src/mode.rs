//! Mode pages (SPC-4 §7.5, SBC-4 §6.5): control, caching, informational exceptions.

use alloc::vec::Vec;

use volume::Features;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::cdb::Cdb;
use crate::device::LogicalUnit;
use crate::page::Page;
use crate::sense::{Additional, Check};

const CACHING: u8 = 0x08;
const CONTROL: u8 = 0x0a;
const EXCEPTIONS: u8 = 0x1c;
const ALL_PAGES: u8 = 0x3f;
const ALL_SUBPAGES: u8 = 0xff;

/// What a page begins with (SPC-4 §7.5.7, page_0 format).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PageHeader {
    /// PS (bit 7), SPF (bit 6), PAGE CODE (bits 5:0).
    code: u8,
    length: u8,
}

impl PageHeader {
    /// The page's code, whether it could be saved or not; above 3Fh for a page with a subpage code.
    const fn code(self) -> u8 {
        self.code & 0x7f
    }
}

/// The Control mode page (SPC-4 §7.5.8).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ControlPage {
    header: PageHeader,
    /// D_SENSE (bit 2).
    sense: u8,
    /// QUEUE ALGORITHM MODIFIER (bits 7:4).
    queue: u8,
    /// SWP (bit 3).
    protection: u8,
    /// TAS (bit 6): commands that another nexus aborts end with TASK ABORTED.
    status: u8,
    rest: [u8; 6],
}

const _: () = assert!(size_of::<ControlPage>() == 12);

impl ControlPage {
    const D_SENSE: u8 = 1 << 2;
    const UNRESTRICTED: u8 = 1 << 4;
    const SWP: u8 = 1 << 3;
    const TAS: u8 = 1 << 6;

    /// The page with these mode parameters; what cannot be changed is as it is, or zero in the mask of what can.
    fn new(state: ModeState, which: Which) -> Self {
        let fixed = |bits| if which == Which::Changeable { 0 } else { bits };
        Self {
            header: PageHeader { code: CONTROL, length: 0x0a },
            sense: u8::from(state.descriptor_sense) * Self::D_SENSE,
            queue: fixed(Self::UNRESTRICTED),
            protection: u8::from(state.software_write_protect) * Self::SWP,
            status: fixed(Self::TAS),
            rest: [0; 6],
        }
    }

    /// The mode parameters that it sets.
    fn state(&self) -> ModeState {
        ModeState {
            descriptor_sense: self.sense & Self::D_SENSE != 0,
            software_write_protect: self.protection & Self::SWP != 0,
        }
    }
}

/// The Caching mode page (SBC-4 §6.5.5).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CachingPage {
    header: PageHeader,
    /// WCE (bit 2).
    cache: u8,
    rest: [u8; 17],
}

const _: () = assert!(size_of::<CachingPage>() == 20);

impl CachingPage {
    const WCE: u8 = 1 << 2;
}

/// The Informational Exceptions Control mode page (SPC-4 §7.5.13).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ExceptionsPage {
    header: PageHeader,
    rest: [u8; 10],
}

const _: () = assert!(size_of::<ExceptionsPage>() == 12);

/// The device-specific parameter of a mode parameter header (SBC-4 §6.5.1).
struct DeviceSpecific;

impl DeviceSpecific {
    const WP: u8 = 1 << 7;
    const DPOFUA: u8 = 1 << 4;

    const fn byte(protected: bool) -> u8 {
        if protected { Self::DPOFUA | Self::WP } else { Self::DPOFUA }
    }
}

/// What MODE SELECT can change on a logical unit; one per nexus's view, told to others by an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModeState {
    /// Sense data in descriptor format (D_SENSE).
    pub descriptor_sense: bool,
    /// Writes are refused (SWP).
    pub software_write_protect: bool,
}

/// Which of two commands asks: their parameter headers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CdbForm {
    /// MODE SENSE (6) or MODE SELECT (6).
    Six,
    /// MODE SENSE (10) or MODE SELECT (10).
    Ten,
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
            fill(&mut pages, Shown { unit, which, state });
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
    DeviceSpecific::byte(protected)
}

/// SBC-4 §6.5.2: short, or long with LONGLBA.
fn block_descriptor(unit: &LogicalUnit, long: bool) -> Vec<u8> {
    let geometry = unit.geometry;
    if long {
        return Page::new().u64(geometry.blocks).u32(0).u32(geometry.block_size).take();
    }
    Page::new().u32(wire::saturate::<u32>(geometry.blocks)).u32(geometry.block_size).take()
}

/// What the pages show.
#[derive(Debug, Clone, Copy)]
struct Shown<'a> {
    unit: &'a LogicalUnit,
    which: Which,
    state: ModeState,
}

type Fill = fn(&mut Page, Shown<'_>);

/// Every page in ascending order.
const PAGES: &[(u8, Fill)] = &[(CACHING, caching), (CONTROL, control), (EXCEPTIONS, exceptions)];

fn caching(page: &mut Page, shown: Shown<'_>) {
    let cached = shown.which != Which::Changeable && shown.unit.features.contains(Features::VOLATILE_CACHE);
    let header = PageHeader { code: CACHING, length: 0x12 };
    let content = CachingPage { header, cache: u8::from(cached) * CachingPage::WCE, rest: [0; 17] };
    page.put(content.as_bytes());
}

fn control(page: &mut Page, shown: Shown<'_>) {
    let state = match shown.which {
        Which::Current => shown.state,
        Which::Changeable => ModeState { descriptor_sense: true, software_write_protect: true },
        Which::Default => ModeState::default(),
    };
    page.put(ControlPage::new(state, shown.which).as_bytes());
}

fn exceptions(page: &mut Page, _shown: Shown<'_>) {
    let header = PageHeader { code: EXCEPTIONS, length: 0x0a };
    page.put(ExceptionsPage { header, rest: [0; 10] }.as_bytes());
}

/// Reads a MODE SELECT parameter list; nothing is changed unless all of it is right.
pub(crate) fn select(
    list: &[u8],
    form: CdbForm,
    unit: &LogicalUnit,
    state: ModeState,
) -> Result<ModeState, Check> {
    let reader = Cdb(list);
    let (header, descriptors) = match form {
        CdbForm::Six => (4, usize::from(reader.u8(3))),
        CdbForm::Ten => (8, usize::from(reader.u16(6))),
    };
    if list.len() < header {
        return Err(Check::illegal(Additional::PARAMETER_LIST_LENGTH));
    }
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
    let (header, _) = PageHeader::read_from_prefix(bytes).ok()?;
    let code = header.code();
    let (_, fill) = PAGES.iter().find(|(known, _)| *known == code)?;
    let wanted = match code {
        CONTROL => ControlPage::read_from_bytes(bytes).ok()?.state(),
        _ => state,
    };
    let mut result = Page::new();
    fill(&mut result, Shown { unit, which: Which::Current, state: wanted });
    let expected = result.take();
    let same = expected.get(1..) == bytes.get(1..) && expected.first() == Some(&code);
    same.then_some(wanted)
}
