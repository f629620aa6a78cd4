//! Listings of directories.

use std::collections::{BTreeMap, BTreeSet};

use protocol::Entropy;

use super::bench::{Bench, name};
use super::finding::{Finding, Verdict, see};
use crate::{
    Cookie, CookieVerifier, CreateHow, ENTRY_OBJECT_BYTES, FileErrorKind, Name, Operation, Outcome, Page,
    Removal, SetAttributes, entry_bytes,
};

/// Bytes of a page.
const PAGE: u32 = 600;

#[derive(Clone, Copy)]
struct Position {
    cookie: Cookie,
    verifier: CookieVerifier,
}

const START: Position = Position { cookie: Cookie::START, verifier: CookieVerifier([0; 8]) };

fn operation(bench: &Bench<'_>, at: Position, max_bytes: u32, with_objects: bool) -> Operation {
    let Position { cookie, verifier } = at;
    Operation::ReadDirectory { directory: bench.folder, cookie, verifier, max_bytes, with_objects }
}

fn page(bench: &mut Bench<'_>, at: Position, max_bytes: u32, with_objects: bool) -> Result<Page, Finding> {
    let page = match bench.must(operation(bench, at, max_bytes, with_objects))? {
        Outcome::Page(page) => *page,
        other => return Err(Finding::Answer(format!("a listing answers {other:?}"))),
    };
    let bytes: usize = page.entries.iter().map(|entry| entry_bytes(&entry.name)).sum();
    let bytes = bytes + if with_objects { page.entries.len() * ENTRY_OBJECT_BYTES } else { 0 };
    see(bytes <= max_bytes as usize, || format!("a page of {max_bytes} bytes at most has {bytes}"))?;
    see(!page.entries.is_empty() || page.eof, || "a page is empty, and not the last".to_owned())?;
    let low = page.entries.iter().any(|entry| entry.cookie < Cookie::FIRST);
    see(!low, || "an entry has a cookie that is the server's".to_owned())?;
    Ok(page)
}

/// Lists everything, and says how often each name was there.
fn list(
    bench: &mut Bench<'_>,
    max_bytes: u32,
    mut between: impl FnMut(&mut Bench<'_>) -> Verdict,
) -> Result<BTreeMap<Name, u32>, Finding> {
    let (mut at, mut seen) = (START, BTreeMap::new());
    loop {
        let page = page(bench, at, max_bytes, false)?;
        for entry in &page.entries {
            *seen.entry(entry.name.clone()).or_insert(0) += 1;
        }
        if page.eof {
            return Ok(seen);
        }
        let Some(last) = page.entries.last() else { return Ok(seen) };
        see(last.cookie != at.cookie, || "a listing does not go on".to_owned())?;
        at = Position { cookie: last.cookie, verifier: page.verifier };
        between(bench)?;
    }
}

fn fill(bench: &mut Bench<'_>, prefix: &str, count: u32) -> Verdict {
    for index in 0..count {
        bench.file(&format!("{prefix}{index}"))?;
    }
    Ok(())
}

pub(super) fn listings_have_everything_once(bench: &mut Bench<'_>) -> Verdict {
    let empty = list(bench, PAGE, |_| Ok(()))?;
    see(empty.is_empty(), || format!("an empty directory lists {empty:?}"))?;
    fill(bench, "entry", 100)?;
    for max_bytes in [200, PAGE, 1 << 20] {
        let seen = list(bench, max_bytes, |_| Ok(()))?;
        let once = seen.len() == 100 && seen.values().all(|times| *times == 1);
        see(once, || {
            format!("100 entries were listed as {} names, {} times", seen.len(), seen.values().sum::<u32>())
        })?;
    }
    Ok(())
}

pub(super) fn listings_tell_objects(bench: &mut Bench<'_>) -> Verdict {
    fill(bench, "entry", 10)?;
    let page = page(bench, START, 1 << 20, true)?;
    see(page.entries.len() == 10 && page.eof, || {
        format!("{} of 10 entries were listed", page.entries.len())
    })?;
    for entry in page.entries {
        let directory = bench.folder;
        match bench.must(Operation::Lookup { directory, name: entry.name.clone() })? {
            Outcome::Found(found) => {
                let told = entry.object.map(|object| (object.handle, object.attributes));
                let right =
                    told == Some((found.handle, found.attributes)) && entry.fileid == found.attributes.fileid;
                see(right, || format!("{entry:?} was listed, and is {found:?}"))?;
            }
            other => see(false, || format!("a lookup answers {other:?}"))?,
        }
    }
    Ok(())
}

pub(super) fn listings_refuse_what_makes_no_sense(bench: &mut Bench<'_>) -> Verdict {
    fill(bench, "entry", 20)?;
    let first = page(bench, START, 300, false)?;
    bench.must_fail(operation(bench, START, 8, false), &[FileErrorKind::Invalid])?;
    let cookie = first.entries.last().map_or(Cookie::FIRST, |entry| entry.cookie);
    let foreign = Position { cookie, verifier: CookieVerifier([0x5a; 8]) };
    bench.must_fail(operation(bench, foreign, PAGE, false), &[FileErrorKind::BadCookie])?;
    let reserved = Position { cookie: Cookie(1), verifier: first.verifier };
    bench.must_fail(operation(bench, reserved, PAGE, false), &[FileErrorKind::BadCookie])?;
    let file = bench.find("entry0")?.handle;
    let (cookie, verifier) = (Cookie::START, CookieVerifier::default());
    let listing =
        Operation::ReadDirectory { directory: file, cookie, verifier, max_bytes: PAGE, with_objects: false };
    bench.must_fail(listing, &[FileErrorKind::NotDirectory])
}

pub(super) fn listings_survive_changes(bench: &mut Bench<'_>) -> Verdict {
    let count = bench.options.entries;
    fill(bench, "stays", count)?;
    fill(bench, "goes", count / 4)?;
    let mut left: BTreeSet<u32> = (0..count / 4).collect();
    let mut made = 0;
    let seen = list(bench, PAGE, |bench| {
        for _ in 0..3 {
            let wanted = u32::try_from(bench.entropy.number() % 1_000_000).unwrap_or(0);
            let gone = left.range(wanted % (count / 4 + 1)..).next().or_else(|| left.iter().next()).copied();
            if let Some(index) = gone {
                left.remove(&index);
                bench.must(bench.removal(&format!("goes{index}"), Removal::File))?;
            }
            if made < count / 4 {
                let how = Box::new(CreateHow::Guarded(SetAttributes::default()));
                let called = name(&format!("comes{made}"));
                bench.must(Operation::Create { directory: bench.folder, name: called, how, open: None })?;
                made += 1;
            }
        }
        Ok(())
    })?;
    for index in 0..count {
        let times = seen.get(&name(&format!("stays{index}"))).copied().unwrap_or(0);
        see(times == 1, || {
            format!("an entry that stayed was listed {times} times while others came and went")
        })?;
    }
    let twice = seen.values().filter(|times| **times > 1).count();
    see(twice == 0, || format!("{twice} entries were listed more than once"))
}
