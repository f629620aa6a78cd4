//! Identify data of a controller and its namespaces (NVMe Base §5.1.13).

use alloc::vec;
use alloc::vec::Vec;

use volume::{Features, Geometry};
use zerocopy::{FromZeros, IntoBytes};

use super::admin::Admin;
use super::subsystem::{Namespace, Subsystem};
use crate::fabrics::put_text;
use crate::identify::{
    CSI_NVM, Identify, IdentifyController, IdentifyNamespace, IndependentNamespace, NamespaceIds,
    NvmController, NvmNamespace, SIZE, cns, put_padded, write_descriptors,
};
use crate::limits::{ABORTS, ASYNC_EVENTS, KEEP_ALIVE_GRANULARITY, RANGES};
use crate::sqe::ALL_NAMESPACES;
use crate::status::Status;
use crate::{DISCOVERY_NQN, VERSION, identify};

/// The structure that the command asks for.
pub(super) fn data(admin: &Admin, command: Identify, nsid: u32) -> Result<Vec<u8>, Status> {
    let Some(subsystem) = admin.subsystem() else {
        return match command.cns {
            cns::CONTROLLER => Ok(discovery_controller(admin).as_bytes().to_vec()),
            _ => Err(Status::INVALID_FIELD.dnr()),
        };
    };
    let wrong_set = command.csi != CSI_NVM;
    match command.cns {
        cns::NAMESPACE => Ok(namespace(subsystem, nsid)?.as_bytes().to_vec()),
        cns::CONTROLLER => Ok(io_controller(admin, subsystem).as_bytes().to_vec()),
        cns::DESCRIPTORS => descriptors(find(subsystem, nsid)?),
        cns::INDEPENDENT => Ok(independent(subsystem, nsid)?.as_bytes().to_vec()),
        cns::COMMAND_SETS => Ok(command_sets()),
        // A namespace of the NVM command set has no such structure of another one.
        cns::SET_NAMESPACE if wrong_set => find(subsystem, nsid).and(Err(Status::INVALID_COMMAND_SET.dnr())),
        // SPDK's host takes the error as: there are no namespaces of that command set.
        cns::SET_CONTROLLER | cns::SET_NAMESPACE_LIST if wrong_set => Err(Status::INVALID_FIELD.dnr()),
        cns::SET_NAMESPACE => Ok(nvm_namespace(subsystem, nsid)?.as_bytes().to_vec()),
        cns::SET_CONTROLLER => Ok(nvm_controller().as_bytes().to_vec()),
        cns::NAMESPACE_LIST | cns::SET_NAMESPACE_LIST => list(subsystem, nsid),
        _ => Err(Status::INVALID_FIELD.dnr()),
    }
}

fn find(subsystem: &Subsystem, nsid: u32) -> Result<&Namespace, Status> {
    let found = subsystem.namespaces.iter().find(|namespace| namespace.nsid == nsid);
    found.ok_or(Status::INVALID_NAMESPACE.dnr())
}

/// The namespace if it is active, none if it could be; other identifiers are errors.
fn find_active(subsystem: &Subsystem, nsid: u32) -> Result<Option<&Namespace>, Status> {
    let highest = subsystem.namespaces.last().map_or(0, |namespace| namespace.nsid);
    match find(subsystem, nsid) {
        Ok(namespace) => Ok(Some(namespace)),
        Err(_) if nsid != 0 && nsid <= highest => Ok(None),
        Err(status) => Err(status),
    }
}

fn common(admin: &Admin) -> IdentifyController {
    let mut data = IdentifyController::new_zeroed();
    data.cntlid.set(admin.cntlid);
    data.ver.set(VERSION);
    data.lpa = identify::LPA;
    data.aerl = u8::try_from(ASYNC_EVENTS.saturating_sub(1)).unwrap_or(0);
    data.acl = ABORTS.saturating_sub(1);
    data.ctratt.set(identify::CTRATT_HOSTID);
    data.kas.set(KEEP_ALIVE_GRANULARITY);
    data.frmw = identify::FRMW_ONE_FIXED;
    data.maxcmd.set(admin.depth());
    data.sgls.set(identify::sgls(admin.sgls));
    data
}

fn discovery_controller(admin: &Admin) -> IdentifyController {
    let mut data = common(admin);
    put_padded(&mut data.sn, "discovery");
    put_padded(&mut data.mn, "Linerate discovery");
    put_padded(&mut data.fr, env!("CARGO_PKG_VERSION"));
    data.cntrltype = 2;
    data.oaes.set(identify::OAES_DISCOVERY);
    data.set_max_transfer(1 << 20);
    put_text(&mut data.subnqn, DISCOVERY_NQN);
    data
}

fn io_controller(admin: &Admin, subsystem: &Subsystem) -> IdentifyController {
    let mut data = common(admin);
    put_padded(&mut data.sn, &subsystem.serial);
    put_padded(&mut data.mn, &subsystem.model);
    put_padded(&mut data.fr, &subsystem.firmware);
    data.cntrltype = 1;
    data.cmic = identify::CMIC_SHARED;
    data.set_max_transfer(subsystem.max_transfer());
    data.oaes.set(identify::OAES_NAMESPACE);
    data.oacs.set(u16::from(subsystem.tells_allocation()) * identify::OACS_LBA_STATUS);
    data.wctemp.set(343);
    data.cctemp.set(373);
    data.sqes = identify::SQES;
    data.cqes = identify::CQES;
    let highest = subsystem.namespaces.last().map_or(1, |namespace| namespace.nsid);
    data.nn.set(highest);
    data.mnan.set(highest);
    data.oncs.set(optional_commands(subsystem));
    let cached = |namespace: &Namespace| namespace.features.contains(Features::VOLATILE_CACHE);
    let present = subsystem.namespaces.iter().any(cached);
    data.vwc = identify::VWC_FLUSH_ALL | (u8::from(present) * identify::VWC_PRESENT);
    put_text(&mut data.subnqn, &subsystem.nqn);
    data.set_in_capsule(subsystem.limits.in_capsule.min(admin.sgls.in_capsule));
    data.iorcsz.set(1);
    data.msdbd = 1;
    data
}

/// Commands that every namespace takes; a host sees them as the controller's.
fn optional_commands(subsystem: &Subsystem) -> u16 {
    let all = |feature| subsystem.namespaces.iter().all(|namespace| namespace.features.contains(feature));
    let mut oncs = identify::ONCS_VERIFY | identify::ONCS_RESERVATIONS;
    for (feature, bit) in [
        (Features::COMPARE, identify::ONCS_COMPARE),
        (Features::DISCARD, identify::ONCS_DATASET),
        (Features::WRITE_ZEROES, identify::ONCS_WRITE_ZEROES),
    ] {
        oncs |= u16::from(all(feature)) * bit;
    }
    oncs
}

fn namespace(subsystem: &Subsystem, nsid: u32) -> Result<IdentifyNamespace, Status> {
    let mut data = IdentifyNamespace::new_zeroed();
    if nsid == ALL_NAMESPACES {
        // Capabilities common to all namespaces: the two block sizes that exist here.
        data.nlbaf = 1;
        set_format(&mut data, 0, 9);
        set_format(&mut data, 1, 12);
        return Ok(data);
    }
    // An inactive namespace reads as zeros.
    if let Some(namespace) = find_active(subsystem, nsid)? {
        fill(&mut data, namespace);
    }
    Ok(data)
}

fn set_format(data: &mut IdentifyNamespace, index: usize, power: u8) {
    if let Some(format) = data.lbaf.get_mut(index) {
        format.lbads = power;
    }
}

fn fill(data: &mut IdentifyNamespace, namespace: &Namespace) {
    let geometry = namespace.geometry;
    data.nsze.set(geometry.blocks);
    data.ncap.set(geometry.blocks);
    data.nuse.set(geometry.blocks);
    let [low, _] = &mut data.nvmcap;
    low.set(geometry.bytes());
    set_format(data, 0, u8::try_from(geometry.block_size.trailing_zeros()).unwrap_or(9));
    data.nmic = identify::NMIC_SHARED;
    data.rescap = identify::RESCAP;
    data.nsattr = read_only(namespace);
    data.nguid = namespace.nguid;
    if let Some(mark) = namespace.incarnation {
        data.set_incarnation(mark);
    }
    data.eui64 = namespace.eui64.unwrap_or_default();
    data.nsfeat = identify::NSFEAT_PREFERRED;
    let from_zero = |blocks: u32| wire::saturate::<u16>(blocks.saturating_sub(1));
    let physical = from_zero(geometry.physical_block_size.checked_div(geometry.block_size).unwrap_or(1));
    data.npwg.set(physical);
    data.npwa.set(physical);
    let granularity = from_zero(namespace.limits.discard_granularity);
    data.npdg.set(granularity);
    data.npda.set(granularity);
    let atomic = from_zero(namespace.limits.atomic_blocks);
    data.nawun.set(atomic);
    data.nawupf.set(atomic);
    if namespace.features.contains(Features::DISCARD) {
        data.nsfeat |= identify::NSFEAT_THIN;
        data.dlfeat = identify::DLFEAT_ZEROS | identify::DLFEAT_WRITE_ZEROES;
    }
}

fn read_only(namespace: &Namespace) -> u8 {
    u8::from(namespace.features.contains(Features::READ_ONLY)) * identify::NSATTR_READ_ONLY
}

fn independent(subsystem: &Subsystem, nsid: u32) -> Result<IndependentNamespace, Status> {
    let mut data = IndependentNamespace::new_zeroed();
    let Some(namespace) = find_active(subsystem, nsid)? else { return Ok(data) };
    data.nmic = identify::NMIC_SHARED;
    data.rescap = identify::RESCAP;
    data.nsattr = read_only(namespace);
    data.nstat = identify::NSTAT_READY;
    Ok(data)
}

fn descriptors(namespace: &Namespace) -> Result<Vec<u8>, Status> {
    let ids = NamespaceIds {
        nguid: Some(namespace.nguid),
        eui64: namespace.eui64,
        uuid: Some(namespace.uuid),
        command_set: Some(CSI_NVM),
    };
    let mut page = vec![0; SIZE];
    write_descriptors(&ids, &mut page).map_err(|_| Status::INTERNAL_ERROR)?;
    Ok(page)
}

fn nvm_controller() -> NvmController {
    let mut data = NvmController::new_zeroed();
    // A range more than the field can say.
    data.dmrl = wire::saturate::<u8>(RANGES);
    data
}

/// Blocks in which a namespace's allocation is told; 0 if it is not.
fn granularity(namespace: &Namespace) -> u32 {
    let Geometry { block_size, physical_block_size, .. } = namespace.geometry;
    let blocks = physical_block_size.checked_div(block_size).unwrap_or(0).max(1);
    u32::from(namespace.features.contains(Features::ALLOCATION)).saturating_mul(blocks)
}

fn nvm_namespace(subsystem: &Subsystem, nsid: u32) -> Result<NvmNamespace, Status> {
    let mut data = NvmNamespace::new_zeroed();
    data.tlbaag.set(find_active(subsystem, nsid)?.map_or(0, granularity));
    Ok(data)
}

fn command_sets() -> Vec<u8> {
    let mut page = vec![0; SIZE];
    if let Some(first) = page.first_mut() {
        *first = 1;
    }
    page
}

/// Identifiers above `after`, in order.
fn list(subsystem: &Subsystem, after: u32) -> Result<Vec<u8>, Status> {
    if after >= ALL_NAMESPACES.saturating_sub(1) {
        return Err(Status::INVALID_NAMESPACE.dnr());
    }
    let mut page = vec![0; SIZE];
    let above = subsystem.namespaces.iter().map(|namespace| namespace.nsid).filter(|nsid| *nsid > after);
    for (target, nsid) in page.chunks_exact_mut(4).zip(above) {
        target.copy_from_slice(&nsid.to_le_bytes());
    }
    Ok(page)
}
