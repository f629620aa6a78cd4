//! `docs/reference/urls.md` says what the code reads: every scheme, option, filter, argument, operation, kind and unit, and none else.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::{ByteSize, Span, VolumeUrl, duration, filter, iscsi, nfs, nvme, size, source, url};

const PAGE: &str = include_str!("../../../docs/reference/urls.md");

/// The first cells of the tables under a heading, without their backticks.
fn cells(heading: &str) -> Vec<&'static str> {
    let section =
        PAGE.split_once(&alloc::format!("\n{heading}\n")).unwrap_or_else(|| panic!("{heading} is missing")).1;
    let level = heading.split(' ').next().unwrap_or_default();
    let ends = |line: &&str| !(line.starts_with("## ") || line.starts_with("### ") && level == "###");
    let rows = section.lines().take_while(ends).filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once('`')).map(|(cell, _)| cell).collect()
}

/// The headings under one of a higher level, without their backticks and colons.
fn headings(above: &str) -> Vec<&'static str> {
    let section = PAGE.split_once(&alloc::format!("\n## {above}\n")).unwrap().1;
    let lines = section.lines().take_while(|line| !line.starts_with("## "));
    let names = lines.filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'));
    names.map(|name| name.trim_end_matches(':')).collect()
}

#[test]
fn every_scheme_has_its_options() {
    assert_eq!(headings("Schemes"), url::SCHEMES);
    let memory: &[&str] = &source::MEMORY_OPTIONS;
    let options: [(&str, &[&str]); 11] = [
        ("null", memory),
        ("ram", memory),
        ("file", &source::FILE_OPTIONS),
        ("device", &source::DEVICE_OPTIONS),
        ("vhost-user", &source::VHOST_USER_OPTIONS),
        ("iscsi", iscsi::OPTIONS),
        ("iser", iscsi::ISER_OPTIONS),
        ("nvme+tcp", nvme::OPTIONS),
        ("nvme+rdma", nvme::RDMA_OPTIONS),
        ("nfs", nfs::OPTIONS),
        ("nfs+rdma", nfs::RDMA_OPTIONS),
    ];
    for (scheme, options) in options {
        assert_eq!(cells(&alloc::format!("### `{scheme}:`")), options, "the options of {scheme}");
    }
}

#[test]
fn a_folder_has_its_options() {
    assert_eq!(cells("### `dir:`"), crate::share::FOLDER_OPTIONS);
}

/// What an error about an argument that there is not says there is.
fn arguments(filter: &str) -> Vec<String> {
    let url = alloc::format!("{filter},nosuch=1+null:1M");
    let error = url.parse::<VolumeUrl>().unwrap_err();
    let list = error.remedy().strip_prefix("it has ").unwrap().replace(" and ", ", ");
    list.split(", ").map(|word| word.split('=').next().unwrap_or_default().to_string()).collect()
}

#[test]
fn every_filter_has_its_arguments() {
    assert_eq!(headings("Filters"), filter::NAMES);
    for (name, value) in [("delay", "delay=1ms"), ("fail", "fail=1%")] {
        assert_eq!(cells(&alloc::format!("### `{name}`")), arguments(value), "the arguments of {name}");
    }
    let words: Vec<&str> = filter::OPERATIONS
        .iter()
        .map(|(name, _)| *name)
        .chain(filter::KINDS.iter().map(|(name, _)| *name))
        .collect();
    assert_eq!(cells("## Words"), words);
}

#[test]
fn every_unit_is_named() {
    let section = PAGE.split_once("\n## Sizes and durations\n").unwrap().1;
    for (unit, _) in size::UNITS {
        assert!(section.contains(&alloc::format!("`{unit}`")), "{unit}");
        assert!(alloc::format!("1{unit}").parse::<ByteSize>().is_ok());
    }
    for (unit, _) in duration::UNITS {
        assert!(section.contains(&alloc::format!("`{unit}`")), "{unit}");
        assert!(alloc::format!("1{unit}").parse::<Span>().is_ok());
    }
}

#[test]
fn the_examples_are_urls() {
    let block = PAGE.split("```").nth(1).unwrap();
    let examples: Vec<&str> =
        block.lines().skip(1).filter(|line| !line.starts_with('[') && !line.is_empty()).collect();
    assert!(examples.len() > 4);
    for example in examples {
        example.parse::<VolumeUrl>().unwrap_or_else(|error| panic!("{error}"));
    }
}
