//! fio's words that `linerate bench` says otherwise, for whoever types them here.

/// An option of fio, without its dashes, and what to write here.
const OPTIONS: [(&str, &str); 22] = [
    ("numjobs", "name a volume several times: each has connections of its own; --qd is shared among them"),
    ("iodepth_batch", "--qd keeps so many requests under way"),
    ("filename", "name the volume as an argument, without an option"),
    ("ioengine", "the volume's URL says how it is reached"),
    ("direct", "put ?direct=1 behind the URL of a file; devices are direct unless ?direct=0"),
    ("rwmixwrite", "give --rwmixread, which is the rest of a hundred"),
    ("time_based", "leave it out: a load always lasts --runtime"),
    ("group_reporting", "leave it out: all volumes are counted together"),
    ("name", "leave it out: there is one load"),
    ("output-format", "give --json"),
    ("rate", "give --rate without fio's suffixes: requests per second over all volumes"),
    ("rate_iops", "give --rate"),
    ("thinktime", "give --rate for an open loop"),
    ("verify", "use linerate check URL"),
    ("do_verify", "use linerate check URL"),
    ("io_size", "give --runtime: a load ends by time"),
    ("loops", "give --runtime: a load ends by time"),
    ("offset", "give --size: a load begins at the first byte"),
    ("fsync", "writes are flushed by nobody here; fio with Linerate's engine can"),
    ("bssplit", "give one --bs; fio with Linerate's engine can mix them"),
    ("random_distribution", "offsets are uniform; fio with Linerate's engine has others"),
    ("eta", "leave it out: progress is shown on a terminal"),
];

/// What to write in place of fio's option `given`, such as `--numjobs=4`.
pub(crate) fn instead(given: &str) -> Option<&'static str> {
    let name = given.trim_start_matches('-').split('=').next().unwrap_or_default();
    let same = |theirs: &str| theirs == name || theirs.replace('_', "-") == name;
    OPTIONS.iter().find(|(theirs, _)| same(theirs)).map(|(_, here)| *here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_known_in_both_spellings() {
        assert!(instead("--numjobs=4").unwrap().contains("several times"));
        assert_eq!(instead("--time-based"), instead("--time_based"));
        assert_eq!(instead("--runtime"), None);
    }
}
