//! Attributes of objects in a served folder, and what is told of the whole. All of it blocks.

use filesystem::{
    Access, Attributes, Credentials, FileErrorKind, FileHandle, OpenAccess, Outcome, SetAttributes, SetTime,
    Space, Target, Time, WccData,
};
use host::{IoError, NodeKind, Right, Tree};

use super::convert::new_time;
use super::error::kind_of;
use super::shared::{Node, Shared};

type Answer = Result<Outcome, FileErrorKind>;

/// Tells all attributes.
pub(super) fn get(shared: &Shared, object: &Target) -> Answer {
    let node = shared.resolve(&object.file)?;
    Ok(Outcome::Attributes(Box::new(shared.attributes(&node.stat))))
}

/// Tells rights, as the system judges them in the caller's name.
pub(super) fn access(shared: &Shared, caller: &Credentials, object: &FileHandle, asked: Access) -> Answer {
    let node = shared.resolve(object)?;
    let judge = |tree: &dyn Tree| -> Result<Access, IoError> {
        let [read, write, execute] =
            [Right::Read, Right::Write, Right::Execute].map(|right| tree.has_right(&node.descriptor, right));
        let (read, write, execute) = (read?, write?, execute?);
        let mut rights = Access::empty();
        rights.set(Access::READ, read);
        if node.stat.kind == NodeKind::Directory {
            rights.set(Access::LOOKUP, execute);
            rights.set(Access::MODIFY | Access::EXTEND | Access::DELETE, write && execute);
        } else {
            rights.set(Access::MODIFY | Access::EXTEND, write);
            rights.set(Access::EXECUTE, execute);
        }
        Ok(rights)
    };
    Ok(Outcome::Access(shared.try_as_caller(caller, judge)? & asked))
}

/// Tells a symbolic link's target.
pub(super) fn read_link(shared: &Shared, object: &FileHandle) -> Answer {
    let node = shared.resolve(object)?;
    if node.stat.kind != NodeKind::SymbolicLink {
        return Err(FileErrorKind::Invalid);
    }
    shared.tree.read_link(&node.descriptor).map(Outcome::Link).map_err(kind_of)
}

/// Says whether the caller may set all of these, before any is set.
fn check_rights(
    shared: &Shared,
    caller: &Credentials,
    node: &Node,
    wanted: &SetAttributes,
) -> Result<(), FileErrorKind> {
    if caller.is_root() || !shared.tree.acts_for_others() {
        return Ok(());
    }
    let is_owner = caller.uid() == node.stat.uid;
    let demand = |allowed: bool, kind| if allowed { Ok(()) } else { Err(kind) };
    demand(wanted.mode.is_none() || is_owner, FileErrorKind::NotOwner)?;
    let keeps = |owner| is_owner && owner == node.stat.uid;
    demand(wanted.owner.is_none_or(keeps), FileErrorKind::NotOwner)?;
    let joins = |group| is_owner && (group == node.stat.gid || caller.is_in(group));
    demand(wanted.owner_group.is_none_or(joins), FileErrorKind::NotOwner)?;
    for time in [wanted.time_access, wanted.time_modify].into_iter().flatten() {
        match time {
            SetTime::ToClient(_) => demand(is_owner, FileErrorKind::NotOwner)?,
            SetTime::ToServer if is_owner => {}
            SetTime::ToServer => {
                let writes =
                    shared.try_as_caller(caller, |tree| tree.has_right(&node.descriptor, Right::Write))?;
                demand(writes, FileErrorKind::Access)?;
            }
        }
    }
    Ok(())
}

/// Sets everything but the size, in the caller's name. It is not durable yet.
pub(super) fn apply(
    shared: &Shared,
    caller: &Credentials,
    node: &Node,
    wanted: &SetAttributes,
) -> Result<(), FileErrorKind> {
    let file = &node.descriptor;
    // The kernel lets only both times be set by whoever may write and does not own the file: one of them is the server's to set, after the check.
    let times = wanted.time_access.is_some() || wanted.time_modify.is_some();
    let foreign = times && !caller.is_root() && caller.uid() != node.stat.uid;
    shared.try_as_caller(caller, |tree| {
        if wanted.owner.is_some() || wanted.owner_group.is_some() {
            tree.set_owner(file, wanted.owner, wanted.owner_group)?;
        }
        if let Some(mode) = wanted.mode
            && node.stat.kind != NodeKind::SymbolicLink
        {
            tree.set_mode(file, mode)?;
        }
        if times && !foreign {
            tree.set_times(file, new_time(wanted.time_access), new_time(wanted.time_modify))?;
        }
        Ok(())
    })?;
    if foreign {
        let set = shared.tree.set_times(file, new_time(wanted.time_access), new_time(wanted.time_modify));
        set.map_err(kind_of)?;
    }
    Ok(())
}

/// Sets attributes, all or none.
pub(super) fn set(
    shared: &Shared,
    caller: &Credentials,
    object: &Target,
    guard: Option<Time>,
    wanted: &SetAttributes,
) -> Answer {
    let node = shared.resolve(&object.file)?;
    let before = shared.before(&node);
    if guard.is_some_and(|guard| guard != before.time_metadata) {
        return Err(FileErrorKind::NotSync);
    }
    check_rights(shared, caller, &node, wanted)?;
    if let Some(size) = wanted.size {
        let (_, data) = shared.data_of(object, caller, OpenAccess::WRITE)?;
        shared.tree.set_size(&data.descriptor, size).map_err(kind_of)?;
        strip_privileges(shared, caller, &node)?;
    }
    if !wanted.is_empty() {
        apply(shared, caller, &node, wanted)?;
        shared.judge_anew();
        shared.sync(&node)?;
    }
    let after: Attributes =
        if wanted.is_empty() { shared.attributes(&node.stat) } else { shared.changed(&node, &before)? };
    Ok(Outcome::Changed(Box::new(WccData { before: Some(before), after: Some(after) })))
}

/// A file that somebody else than user 0 writes loses its set-user-ID bit, and its set-group-ID bit if its group may execute it. The system does that for its
/// own callers; what this process writes is root's to it.
pub(super) fn strip_privileges(
    shared: &Shared,
    caller: &Credentials,
    node: &Node,
) -> Result<(), FileErrorKind> {
    if caller.is_root() || node.stat.mode < 0o2000 {
        return Ok(());
    }
    let stat = shared.tree.stat(&node.descriptor).map_err(kind_of)?;
    let (bits, sticky) = (stat.mode % 0o1000, stat.mode / 0o1000 % 2 * 0o1000);
    let group_executes = stat.mode / 0o10 % 2 == 1;
    let set_group = if group_executes { 0 } else { stat.mode / 0o2000 % 2 * 0o2000 };
    let mode = bits + sticky + set_group;
    if mode == stat.mode {
        return Ok(());
    }
    shared.tree.set_mode(&node.descriptor, mode).map_err(kind_of)
}

/// Tells how much space there is.
pub(super) fn space(shared: &Shared) -> Answer {
    let space = shared.tree.space().map_err(kind_of)?;
    Ok(Outcome::Space(Box::new(Space {
        space_total: space.total,
        space_free: space.free,
        space_avail: space.available.min(space.free),
        files_total: space.files,
        files_free: space.files_free.min(space.files),
        files_avail: space.files_free.min(space.files),
    })))
}
