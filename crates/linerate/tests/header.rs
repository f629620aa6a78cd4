//! The C header says what the library is: the same functions, statuses and layouts.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{offset_of, size_of};

use linerate::capi::{Exchange, Geometry, Request, Run};

const HEADER: &str = include_str!("../include/linerate.h");
const SOURCES: [&str; 5] = [
    include_str!("../src/capi/mod.rs"),
    include_str!("../src/capi/request.rs"),
    include_str!("../src/capi/status.rs"),
    include_str!("../src/capi/look.rs"),
    include_str!("../src/capi/alloc.rs"),
];

/// How many parameters follow a function's name and its bracket.
fn parameters(rest: &str) -> usize {
    let list = rest.split(')').next().unwrap().trim().trim_end_matches(',');
    if list.is_empty() || list == "void" { 0 } else { list.split(',').count() }
}

#[test]
fn every_function_is_declared_with_as_many_parameters() {
    let ours: BTreeMap<&str, usize> = SOURCES
        .iter()
        .flat_map(|text| text.split("extern \"C\" fn ").skip(1))
        .filter_map(|text| text.split_once('('))
        .filter(|(name, _)| name.starts_with("linerate_"))
        .map(|(name, rest)| (name, parameters(rest)))
        .collect();
    let declared: BTreeMap<&str, usize> = HEADER
        .lines()
        .filter(|line| {
            line.starts_with("linerate_status linerate_")
                || line.starts_with("void ")
                || line.starts_with("const char")
        })
        .filter_map(|line| {
            let at = line.find("linerate_")? + if line.starts_with("linerate_status ") { 16 } else { 0 };
            let (name, _) = line[at..].split_once('(')?;
            let rest = HEADER[HEADER.find(line)? + at..].split_once('(')?.1;
            Some((name, parameters(rest)))
        })
        .collect();
    assert_eq!(ours, declared);
    assert!(ours.len() > 15, "{ours:?}");
}

#[test]
fn statuses_have_the_same_numbers() {
    let ours: BTreeSet<String> = SOURCES[2]
        .lines()
        .filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = "))
        .map(|(name, number)| {
            let words = name.chars().fold(String::new(), |mut words, letter| {
                if letter.is_uppercase() && !words.is_empty() {
                    words.push('_');
                }
                words.push(letter.to_ascii_uppercase());
                words
            });
            format!("LINERATE_{words} = {number}")
        })
        .collect();
    let part = HEADER.split("typedef enum linerate_status {").nth(1).unwrap().split('}').next().unwrap();
    let declared: BTreeSet<String> = part.split(',').map(|line| line.trim().to_owned()).collect();
    assert_eq!(ours, declared);
}

#[test]
fn structures_are_laid_out_as_the_example_asserts() {
    assert_eq!((size_of::<Geometry>(), offset_of!(Geometry, features)), (24, 20));
    assert_eq!((size_of::<Run>(), offset_of!(Run, len), offset_of!(Run, allocated)), (24, 8, 16));
    assert_eq!((size_of::<Exchange>(), offset_of!(Exchange, len)), (24, 16));
    assert_eq!((size_of::<Request>(), offset_of!(Request, offset), offset_of!(Request, memory)), (32, 8, 24));
}
