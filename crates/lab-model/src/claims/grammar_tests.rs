//! Tests that scenarios write, and texts that are none.

use super::*;

fn shown(text: &str) -> String {
    Test::parse(text).unwrap().to_string()
}

fn error(text: &str) -> String {
    format!("{:#}", Test::parse(text).unwrap_err())
}

#[test]
fn tests_are_read_with_the_usual_precedence() {
    for (text, expected) in [
        ("ratio(bandwidth) >= 2.4", "ratio(bandwidth) >= 2.4"),
        ("iops(A)/iops(B)>=2.13", "ratio(iops) >= 2.13"),
        ("bandwidth(A) / bandwidth(C) >= 2", "bandwidth(A) / bandwidth(C) >= 2"),
        (
            "bandwidth(A) >= 23.714e9 and cpu_host(A) <= 41",
            "(bandwidth(A) >= 23714000000 and cpu_host(A) <= 41)",
        ),
        ("1 + 2 * 3 - 4 > -5e-1", "((1 + (2 * 3)) - 4) > -(0.5)"),
        ("(1 + 2) * 3 > 4", "((1 + 2) * 3) > 4"),
        ("1 > 2 or 3 > 4 and not 5 < 6", "(1 > 2 or (3 > 4 and not (5 < 6)))"),
        ("share(ratio(cpu_host) < 1) >= 0.8", "share(ratio(cpu_host) < 1) >= 0.8"),
        ("max(iops(A)) / max(iops(B)) >= 1.82", "(max(iops(A)) / max(iops(B))) >= 1.82"),
        ("all(ratio(iops) > 1) and any(iops(A) > 1e6)", "(all(ratio(iops) > 1) and any(iops(A) > 1000000))"),
        ("iops(A, volumes=2) / iops(A, volumes=1) > 1.9", "(iops(A, volumes=2) / iops(A, volumes=1)) > 1.9"),
        ("ratio(latency_p99, loss=0.1 %) < 2", "ratio(latency_p99, loss=0.1 %) < 2"),
        (
            "first(bs, bandwidth(A) > 0.95 * max(bandwidth(A))) < 4096",
            "first(bs, bandwidth(A) > (0.95 * max(bandwidth(A)))) < 4096",
        ),
    ] {
        assert_eq!(shown(text), expected);
        assert_eq!(shown(&shown(text)), expected, "what is written is read as the same");
    }
}

#[test]
fn arms_places_and_points_are_known() {
    let test = Test::parse("iops(C, bs=4k) > 1 and mean(ratio(iops)) > 2").unwrap();
    assert_eq!(test.arms().into_iter().collect::<Vec<_>>(), ["A", "B", "C"]);
    assert_eq!(test.places(), [&Coordinate { axis: "bs".to_owned(), value: "4k".to_owned() }]);
    assert!(test.depends_on_point());
    assert!(!Test::parse("mean(ratio(iops)) > max(iops(A))").unwrap().depends_on_point());
}

#[test]
fn what_is_no_test_says_what_was_expected_and_where() {
    for (text, part) in [
        ("", "at the end"),
        ("ratio(iops)", "`ratio(iops)` is a number where a comparison is expected"),
        ("ratio(speed) > 1", "`speed` is unknown"),
        ("median(iops(A)) > 1", "the functions ratio, first, mean"),
        ("iops(A) > 1 2", "nothing more is expected at `2`"),
        ("iops(A > 1", "`)` is expected at `> 1`"),
        ("iops() > 1", "a name is expected at `)"),
        ("iops(A) > 1.2.3", "a number such as"),
        ("(iops(A) > 1) > 2", "is a comparison where a number is expected"),
        ("share(iops(A)) > 2", "is a number where a comparison is expected"),
        ("mean(iops(A) > 1) > 2", "is a comparison where a number is expected"),
        ("iops(A, bs) > 1", "`=` is expected at `)"),
        ("iops(A, bs=) > 1", "a value of bs is expected"),
        ("iops(A) > é", "at `é`"),
    ] {
        let error = error(text);
        assert!(error.contains(part), "{text}: {error}");
        assert!(error.contains(&format!("`{text}`")), "{error}");
    }
}

#[test]
fn brackets_do_not_use_up_the_stack() {
    assert!(error(&"(".repeat(100_000)).contains("more than 32 brackets"));
    assert!(error(&"-".repeat(100_000)).contains("more than 32 brackets"));
    assert!(error(&"not ".repeat(100_000)).contains("more than 32 brackets"));
    assert!(Test::parse(&format!("{}1{} > 0", "(".repeat(32), ")".repeat(32))).is_ok());
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[a-z0-9(),=<>+*/. -]{0,40}") {
        if let Ok(test) = Test::parse(&text) {
            proptest::prop_assert_eq!(Test::parse(&test.to_string()).unwrap(), test);
        }
    }
}
