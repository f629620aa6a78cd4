//! Decides from what the legs hold whether, and how, a mirror may be opened.
//!
//! The newest record counts. With one or two members it is only sure to be the newest if every leg that it calls in sync is there: one that is not may have gone on
//! alone. With three or more, every change is recorded on most members before anything is acknowledged, so that any majority has the newest one. An opening that was
//! cut off may leave records of the same generation on a minority; then a leg is in sync only if all of them say so, which is never too many.

use volume::OpenError;

use crate::limits::{PART_REGIONS, PARTS, SMALLEST_REGION};
use crate::numbering::Numbered;
use crate::placement::Placement;
use crate::superblock::{Content, Found, Layout, Role, Superblock, Version};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub(crate) legs: usize,
    pub(crate) spares: usize,
    /// Members that hold each slab; all if not given.
    pub(crate) copies: Option<u64>,
    /// Bytes of a slab.
    pub(crate) slab: u64,
    pub(crate) degraded: bool,
    /// Data of others on legs that are new may be lost.
    pub(crate) overwrite: bool,
}

/// What was found on one leg.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) found: Found,
    /// It has no superblock, and its data does not begin with zeros.
    pub(crate) holds_data: bool,
    /// Bytes that it has for data, and in a block.
    pub(crate) room: u64,
    pub(crate) block_size: u32,
}

/// How to open the mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// It never existed before.
    pub(crate) fresh: bool,
    pub(crate) layout: Layout,
    /// What each leg is from now on.
    pub(crate) roles: Vec<Role>,
    /// The newest version found; the next one is the opener's.
    pub(crate) version: Version,
    pub(crate) epoch: u64,
}

fn is_blank(seen: Option<&Seen>) -> bool {
    seen.is_some_and(|seen| seen.found == Found::Blank)
}

/// Decides for legs in the URL's order, of which those that could not be reached are `None`.
pub(crate) fn assemble(wishes: Wishes, legs: &[Option<Seen>], uuid: [u8; 16]) -> Result<Plan, OpenError> {
    for (index, seen) in legs.iter().enumerate() {
        match seen.as_ref().map(|seen| &seen.found) {
            Some(Found::Foreign) => {
                return Err(OpenError::new(format!(
                    "the last 2 MiB of {} hold something that is no mirror's: name the right volume, or clear them if they may be lost",
                    Numbered(index)
                )));
            }
            Some(Found::Later(version)) => {
                return Err(OpenError::new(format!(
                    "{} belongs to a mirror of version {version}, which this program does not know: use a later one",
                    Numbered(index)
                )));
            }
            _ => {}
        }
    }
    let records: Vec<(usize, &Superblock)> = (0..)
        .zip(legs)
        .filter_map(|(index, seen)| match &seen.as_ref()?.found {
            Found::Record(record) => Some((index, &**record)),
            _ => None,
        })
        .collect();
    let plan =
        if records.is_empty() { format(wishes, legs, uuid) } else { reassemble(wishes, legs, &records) }?;
    let holds_data = |leg: usize| legs.get(leg).and_then(Option::as_ref).is_some_and(|seen| seen.holds_data);
    // In a new mirror of slabs each leg is the source of some of them, and others are copied over what it has there.
    let slabs = plan.fresh && usize::from(plan.layout.copies) < members_of(&plan.layout);
    let overwritten =
        plan.roles.iter().enumerate().filter(|(_, role)| slabs || role.content == Content::Blank);
    match overwritten.map(|(leg, _)| leg).find(|leg| holds_data(*leg)) {
        Some(leg) if !wishes.overwrite => Err(OpenError::new(format!(
            "{} is no mirror's, and holds data that would be overwritten by other legs': name the right volume, or add overwrite=1 if that may be lost",
            Numbered(leg)
        ))),
        _ => Ok(plan),
    }
}

/// A mirror that never existed: all legs must be there and blank. The first is the source of the others.
fn format(wishes: Wishes, legs: &[Option<Seen>], uuid: [u8; 16]) -> Result<Plan, OpenError> {
    if let Some(index) = legs.iter().position(|seen| !is_blank(seen.as_ref())) {
        return Err(OpenError::new(if legs.get(index).is_some_and(Option::is_none) {
            format!(
                "no leg that was reached belongs to a mirror, and {} was not reached: a new mirror needs all of its legs",
                Numbered(index)
            )
        } else {
            format!(
                "the superblock of {} is damaged, and no other leg has one: clear its last 2 MiB if what it holds may be lost",
                Numbered(index)
            )
        }));
    }
    let seen = || legs.iter().flatten();
    let members = wishes.legs.saturating_sub(wishes.spares);
    let block_size = seen().map(|seen| seen.block_size).max().unwrap_or(512);
    let room = seen().map(|seen| seen.room).min().unwrap_or(0);
    let (members, copies) = (wire::widen(members), wishes.copies.unwrap_or(wire::widen(members)));
    let (size, slab, region) = shape(room, members, copies, wishes.slab)?;
    let layout = Layout {
        uuid,
        legs: wire::bounded(wishes.legs),
        spares: wire::bounded(wishes.spares),
        copies: wire::bounded(copies),
        block_size,
        slab,
        size,
        region,
    };
    let placement = placement(&layout);
    let mut sources: Vec<usize> = Vec::new();
    for row in 0..placement.rows() {
        if !sources.iter().any(|member| placement.holds(*member, row)) {
            sources.extend(placement.members_of(row).next());
        }
    }
    let role = |leg: usize| Role {
        member: (wire::widen(leg) < members).then(|| wire::bounded(leg)),
        content: if sources.contains(&leg) { Content::InSync } else { Content::Blank },
    };
    let roles = (0..wishes.legs).map(role).collect();
    Ok(Plan { fresh: true, layout, roles, version: Version::default(), epoch: 0 })
}

/// Bytes of the mirror, of a slab and of a region.
fn shape(room: u64, members: u64, copies: u64, slab: u64) -> Result<(u64, u64, u64), OpenError> {
    let mut region = SMALLEST_REGION;
    loop {
        let room = room / region * region;
        let size = if copies >= members { room } else { Placement { members, copies, slab }.size(room) };
        if size == 0 {
            return Err(OpenError::new(format!(
                "the smallest leg has room for {room} bytes of data beside its 2 MiB for the mirror: that is no whole region of {region}, or no \
                 slab for each copy; take larger volumes, or a smaller slab="
            )));
        }
        if size / region <= PARTS * PART_REGIONS {
            let slab = if copies >= members { size } else { slab };
            return if slab.is_multiple_of(region) {
                Ok((size, slab, region))
            } else {
                Err(OpenError::new(format!(
                    "slab= must be a multiple of {region} bytes for a mirror of this size"
                )))
            };
        }
        region *= 2;
    }
}

/// Where blocks lie, in blocks of the mirror.
pub(crate) fn placement(layout: &Layout) -> Placement {
    Placement {
        members: u64::from(layout.legs.saturating_sub(layout.spares)),
        copies: u64::from(layout.copies),
        slab: layout.slab / u64::from(layout.block_size.max(1)),
    }
}

fn reassemble(
    wishes: Wishes,
    legs: &[Option<Seen>],
    records: &[(usize, &Superblock)],
) -> Result<Plan, OpenError> {
    let Some((first, newest)) = records.iter().max_by_key(|(_, record)| record.version) else {
        return Err(OpenError::new("no leg has a record"));
    };
    let layout = newest.layout;
    if let Some((other, _)) = records.iter().find(|(_, record)| record.layout.uuid != layout.uuid) {
        return Err(OpenError::new(format!(
            "{} and {} belong to different mirrors: name the legs of one, or clear the last 2 MiB of those that are to join it",
            Numbered(*first),
            Numbered(*other)
        )));
    }
    matches_wishes(wishes, &layout)?;
    if let Some((index, record)) = records.iter().find(|(index, record)| usize::from(record.leg) != *index) {
        return Err(OpenError::new(format!(
            "{} of the mirror stands in the place of {}: write the legs in the order in which the mirror was made",
            Numbered(usize::from(record.leg)),
            Numbered(*index)
        )));
    }
    let mut roles = agreed(records, newest)?;
    refuse_split(&layout, records, newest)?;
    let claimed: Vec<Role> = roles.clone();
    for (role, seen) in roles.iter_mut().zip(legs) {
        match seen.as_ref().map(|seen| &seen.found) {
            None if role.content == Content::InSync => role.content = Content::Out,
            Some(Found::Record(_)) | None => {}
            Some(_) => role.content = Content::Blank,
        }
    }
    if !wishes.degraded {
        refuse_unsure(&layout, records, &claimed, &roles)?;
    }
    let placement = placement(&layout);
    for row in 0..placement.rows() {
        let has = |role: &Role| {
            role.content == Content::InSync
                && role.member.is_some_and(|member| placement.holds(usize::from(member), row))
        };
        if !roles.iter().any(has) {
            return Err(OpenError::new(format!(
                "no leg that has all data can be used; {} had it last: make it reachable again",
                list(claimed.iter().enumerate().filter(|(_, role)| role.content == Content::InSync))
            )));
        }
    }
    fits(&layout, legs)?;
    let epoch = records.iter().map(|(_, record)| record.epoch).max().unwrap_or(0);
    Ok(Plan { fresh: false, layout, roles, version: newest.version, epoch })
}

fn list<'a>(legs: impl Iterator<Item = (usize, &'a Role)>) -> String {
    let names: Vec<_> = legs.map(|(index, _)| Numbered(index).to_string()).collect();
    names.join(", ")
}

/// What every record of the newest generation says.
fn agreed(records: &[(usize, &Superblock)], newest: &Superblock) -> Result<Vec<Role>, OpenError> {
    let mut roles = newest.roles.clone();
    let same = |record: &&Superblock| record.version.generation == newest.version.generation;
    let rivals = records.iter().map(|(_, record)| *record).filter(same);
    for rival in rivals.filter(|record| record.nonce != newest.nonce) {
        // Of each of these openings the newest record that is there.
        let its = records.iter().filter(|(_, record)| record.nonce == rival.nonce);
        let latest = its.map(|(_, record)| record.version).max();
        if latest != Some(rival.version) {
            continue;
        }
        for (role, other) in roles.iter_mut().zip(&rival.roles) {
            if role.member != other.member {
                return Err(OpenError::new(
                    "two openings that were cut off have given a spare's place differently: clear the last 2 MiB of the spare",
                ));
            }
            if other.content != Content::InSync && role.content == Content::InSync {
                role.content = other.content;
            }
        }
    }
    Ok(roles)
}

fn members_of(layout: &Layout) -> usize {
    usize::from(layout.legs.saturating_sub(layout.spares))
}

/// Two legs that have each gone on without the other have both been written.
fn refuse_split(
    layout: &Layout,
    records: &[(usize, &Superblock)],
    newest: &Superblock,
) -> Result<(), OpenError> {
    if members_of(layout) != 2 {
        return Ok(());
    }
    let content = |record: &Superblock, leg: usize| record.roles.get(leg).map(|role| role.content);
    for (index, record) in records {
        let alone = content(record, *index) == Some(Content::InSync)
            && content(newest, *index) != Some(Content::InSync);
        let without = (0..record.roles.len()).find(|other| {
            let in_sync = content(newest, *other) == Some(Content::InSync);
            in_sync && content(record, *other) == Some(Content::Out)
        });
        if let (true, Some(other)) = (alone, without) {
            return Err(OpenError::new(format!(
                "{} and {} have each been used without the other: choose one, and clear the last 2 MiB of the other, whose \
                 writes since then are lost",
                Numbered(*index),
                Numbered(other)
            )));
        }
    }
    Ok(())
}

/// Refuses where a leg that is not there may have newer data.
fn refuse_unsure(
    layout: &Layout,
    records: &[(usize, &Superblock)],
    claimed: &[Role],
    roles: &[Role],
) -> Result<(), OpenError> {
    let members = members_of(layout);
    let remedy = "make it reachable, or add degraded=1 if it is certain that it has nothing newer";
    if members >= 3 {
        let is_member = |leg: usize| claimed.get(leg).is_some_and(|role| role.member.is_some());
        let there = records.iter().filter(|(index, _)| is_member(*index)).count();
        if there <= members / 2 {
            return Err(OpenError::new(format!(
                "{there} of {members} legs with the mirror's record are there, and most of them must be, as the others may have gone on without \
                 these: make them reachable, or add degraded=1 if it is certain that they have nothing newer"
            )));
        }
        return Ok(());
    }
    let lost = claimed.iter().zip(roles).position(|(claimed, role)| {
        claimed.content == Content::InSync && role.content != Content::InSync && claimed.member.is_some()
    });
    match lost {
        None => Ok(()),
        Some(leg) if roles.get(leg).is_some_and(|role| role.content == Content::Blank) => {
            Err(OpenError::new(format!(
                "{} is blank, and was in sync when the others were last used: it may have gone on without them; add degraded=1 if it was replaced \
             and what the others have is to be used",
                Numbered(leg)
            )))
        }
        Some(leg) => Err(OpenError::new(format!(
            "{} was in sync when the others were last used, and cannot be reached: {remedy}",
            Numbered(leg)
        ))),
    }
}

fn matches_wishes(wishes: Wishes, layout: &Layout) -> Result<(), OpenError> {
    let members = members_of(layout);
    let whole = usize::from(layout.copies) == members;
    let copies = wishes.copies.unwrap_or(wire::widen(wishes.legs.saturating_sub(wishes.spares)));
    let problem = if usize::from(layout.legs) != wishes.legs {
        format!("the mirror was made of {} legs, and the URL names {}", layout.legs, wishes.legs)
    } else if usize::from(layout.spares) != wishes.spares {
        format!("the mirror was made with spares={}", layout.spares)
    } else if u64::from(layout.copies) != copies {
        format!("the mirror was made with copies={}", layout.copies)
    } else if !whole && layout.slab != wishes.slab {
        format!("the mirror was made with slab={}", layout.slab)
    } else {
        return Ok(());
    };
    Err(OpenError::new(format!("{problem}: write the URL as it was then")))
}

/// Every leg that is there must be as large as it was.
fn fits(layout: &Layout, legs: &[Option<Seen>]) -> Result<(), OpenError> {
    let placement = placement(layout);
    let needed = if placement.copies >= placement.members {
        layout.size
    } else {
        layout.size / layout.slab / placement.members * placement.copies * layout.slab
    };
    for (index, seen) in legs.iter().enumerate() {
        let Some(seen) = seen else { continue };
        if seen.room < needed || seen.block_size > layout.block_size {
            return Err(OpenError::new(format!(
                "{} has room for {} bytes of data in blocks of {}, and the mirror needs {needed} in blocks of {} or less",
                Numbered(index),
                seen.room,
                seen.block_size,
                layout.block_size
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: [u8; 16] = [4; 16];

    fn wishes(legs: usize) -> Wishes {
        Wishes { legs, spares: 0, copies: None, slab: 1 << 30, degraded: false, overwrite: false }
    }

    #[expect(clippy::unnecessary_wraps, reason = "a leg that was reached, beside those that were not")]
    fn seen(found: Found) -> Option<Seen> {
        Some(Seen { found, holds_data: false, room: (10 << 20) + 4096, block_size: 512 })
    }

    fn blank(legs: usize) -> Vec<Option<Seen>> {
        vec![seen(Found::Blank); legs]
    }

    /// What leg `leg` holds after an opening of this generation and nonce in which those legs were in sync.
    fn record(legs: usize, leg: usize, generation: u64, nonce: u64, in_sync: &[usize]) -> Option<Seen> {
        let plan = assemble(wishes(legs), &blank(legs), UUID).unwrap();
        let role = |index: usize| Role {
            member: Some(u8::try_from(index).unwrap()),
            content: if in_sync.contains(&index) { Content::InSync } else { Content::Out },
        };
        seen(Found::Record(Box::new(Superblock {
            layout: plan.layout,
            leg: u16::try_from(leg).unwrap(),
            version: Version { generation, sequence: generation * 10 },
            epoch: generation,
            nonce,
            roles: (0..legs).map(role).collect(),
            owner: "a".to_owned(),
        })))
    }

    fn in_sync(plan: &Plan) -> Vec<usize> {
        let legs = plan.roles.iter().enumerate();
        legs.filter(|(_, role)| role.content == Content::InSync).map(|(index, _)| index).collect()
    }

    #[test]
    fn blank_legs_become_a_mirror_and_the_first_is_the_source() {
        let plan = assemble(wishes(3), &blank(3), UUID).unwrap();
        assert!(plan.fresh);
        assert_eq!((plan.layout.size, plan.layout.region, in_sync(&plan)), (10 << 20, 1 << 20, vec![0]));
        let mut absent = blank(2);
        absent[1] = None;
        let refused = assemble(wishes(2), &absent, UUID).unwrap_err().to_string();
        assert!(refused.contains("leg 2 was not reached"), "{refused}");
        let small =
            vec![Some(Seen { found: Found::Blank, holds_data: false, room: 1000, block_size: 512 }); 2];
        assert!(assemble(wishes(2), &small, UUID).unwrap_err().to_string().contains("larger volumes"));
    }

    #[test]
    fn data_is_written_over_only_where_that_was_said() {
        let used = |leg: usize, legs: usize| {
            let mut legs = blank(legs);
            if let Some(Some(seen)) = legs.get_mut(leg) {
                seen.holds_data = true;
            }
            legs
        };
        assert!(assemble(wishes(2), &used(0, 2), UUID).is_ok(), "it is the source");
        let refused = assemble(wishes(2), &used(1, 2), UUID).unwrap_err().to_string();
        assert!(refused.contains("leg 2") && refused.contains("overwrite=1"), "{refused}");
        assert!(assemble(Wishes { overwrite: true, ..wishes(2) }, &used(1, 2), UUID).is_ok());
        let spare = assemble(Wishes { spares: 1, ..wishes(2) }, &used(1, 2), UUID).unwrap_err().to_string();
        assert!(spare.contains("leg 2"), "{spare}");
        let slabs = Wishes { copies: Some(2), slab: 1 << 20, ..wishes(3) };
        let refused = assemble(slabs, &used(0, 3), UUID).unwrap_err().to_string();
        assert!(refused.contains("leg 1"), "slabs of others lie there: {refused}");
    }

    #[test]
    fn slabs_have_a_source_in_each_row() {
        let wishes = Wishes { copies: Some(2), slab: 1 << 20, ..wishes(5) };
        let plan = assemble(wishes, &blank(5), UUID).unwrap();
        assert_eq!(plan.layout.size, (5 * 5) << 20);
        let (placement, sources) = (placement(&plan.layout), in_sync(&plan));
        assert!((0..5).all(|row| sources.iter().any(|leg| placement.holds(*leg, row))));
    }

    #[test]
    fn regions_grow_with_the_mirror() {
        let (size, _, region) = shape(1 << 40, 2, 2, 0).unwrap();
        assert_eq!((size, region), (1 << 40, 4 << 20));
        assert!(shape(64 << 40, 3, 2, 1 << 20).unwrap_err().to_string().contains("multiple of"));
    }

    #[test]
    fn foreign_things_are_never_written_over() {
        for (found, told) in
            [(Found::Foreign, "no mirror's"), (Found::Later(9), "version 9"), (Found::Damaged, "damaged")]
        {
            let mut legs = blank(2);
            legs[1] = seen(found);
            let refused = assemble(wishes(2), &legs, UUID).unwrap_err().to_string();
            assert!(refused.contains(told), "{refused}");
        }
        let mut other = record(2, 1, 1, 1, &[0, 1]);
        if let Some(Seen { found: Found::Record(record), .. }) = &mut other {
            record.layout.uuid = [9; 16];
        }
        let refused =
            assemble(wishes(2), &[record(2, 0, 1, 1, &[0, 1]), other], UUID).unwrap_err().to_string();
        assert!(refused.contains("different mirrors"), "{refused}");
        let swapped = [record(2, 1, 1, 1, &[0, 1]), record(2, 0, 1, 1, &[0, 1])];
        assert!(assemble(wishes(2), &swapped, UUID).unwrap_err().to_string().contains("in the order"));
        let pair = [record(2, 0, 1, 1, &[0, 1]), record(2, 1, 1, 1, &[0, 1])];
        let other = Wishes { copies: Some(1), ..wishes(2) };
        assert!(assemble(other, &pair, UUID).unwrap_err().to_string().contains("copies=2"));
    }

    #[test]
    fn of_two_legs_one_that_was_in_sync_must_be_there() {
        let both = record(2, 0, 1, 1, &[0, 1]);
        let refused = assemble(wishes(2), &[both.clone(), None], UUID).unwrap_err().to_string();
        assert!(refused.contains("leg 2") && refused.contains("degraded=1"), "{refused}");
        let forced = Wishes { degraded: true, ..wishes(2) };
        assert_eq!(in_sync(&assemble(forced, &[both.clone(), None], UUID).unwrap()), [0]);
        let alone = record(2, 0, 2, 1, &[0]);
        assert_eq!(in_sync(&assemble(wishes(2), &[alone.clone(), None], UUID).unwrap()), [0]);
        let stale = [alone.clone(), record(2, 1, 1, 1, &[0, 1])];
        assert_eq!(in_sync(&assemble(wishes(2), &stale, UUID).unwrap()), [0], "the newer record counts");
        let replaced = [alone, seen(Found::Blank)];
        let plan = assemble(wishes(2), &replaced, UUID).unwrap();
        assert_eq!((in_sync(&plan), plan.roles[1].content), (vec![0], Content::Blank));
        let unsure = assemble(wishes(2), &[both, seen(Found::Blank)], UUID).unwrap_err().to_string();
        assert!(unsure.contains("leg 2 is blank"), "{unsure}");
        let stale_alone = [None, record(2, 1, 2, 1, &[0])];
        let refused = assemble(forced, &stale_alone, UUID).unwrap_err().to_string();
        assert!(refused.contains("leg 1 had it last"), "{refused}");
    }

    #[test]
    fn two_legs_that_went_on_without_each_other_are_refused() {
        let split = [record(2, 0, 5, 1, &[0]), record(2, 1, 3, 2, &[1])];
        let refused = assemble(Wishes { degraded: true, ..wishes(2) }, &split, UUID).unwrap_err().to_string();
        assert!(refused.contains("without the other"), "{refused}");
    }

    #[test]
    fn of_three_legs_most_must_be_there() {
        let all = |leg| record(3, leg, 1, 1, &[0, 1, 2]);
        let plan = assemble(wishes(3), &[all(0), None, all(2)], UUID).unwrap();
        assert_eq!(in_sync(&plan), [0, 2]);
        let refused = assemble(wishes(3), &[all(0), None, seen(Found::Blank)], UUID).unwrap_err().to_string();
        assert!(refused.contains("1 of 3"), "{refused}");
    }

    #[test]
    fn openings_that_were_cut_off_make_nobody_in_sync() {
        // One reached only leg 0, the other has gone on with legs 1 and 2.
        let legs = [record(3, 0, 2, 7, &[0, 1]), record(3, 1, 2, 8, &[1, 2]), None];
        assert_eq!(in_sync(&assemble(wishes(3), &legs, UUID).unwrap()), [1]);
    }
}
