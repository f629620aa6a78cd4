//! Reports of runs that nobody measured: what every report has, and what none may have.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "../examples/synthetic_run/fixture.rs"]
mod fixture;

use std::path::{Path, PathBuf};

use lab_model::scenario::sweep::Extent;
use lab_model::scenario::{FigureKind, Scenario, catalogue};
use lab_model::seal::Seal;
use serde_json::Value;

/// A report taken apart.
struct Report {
    html: String,
    charts: Vec<Value>,
}

impl Report {
    fn of(folder: &Path) -> Self {
        let path = lab_report::write(folder).unwrap();
        assert_eq!(path, folder.join("report.html"));
        let html = std::fs::read_to_string(path).unwrap();
        let start = "<script type=\"application/json\" id=\"data\">";
        let data = html.split_once(start).unwrap().1.split_once("</script>").unwrap().0;
        let charts = serde_json::from_str(data).unwrap();
        Self { html, charts }
    }

    /// The page without what its own scripts hold.
    fn markup(&self) -> String {
        let mut text = String::new();
        let mut rest = self.html.as_str();
        while let Some((before, script)) = rest.split_once("<script") {
            text.push_str(before);
            rest = script.split_once("</script>").unwrap().1;
        }
        text + rest
    }

    /// A figure's part of the page.
    fn figure(&self, id: &str) -> &str {
        let start = format!("<figure id=\"figure-{id}\">");
        let (_, rest) = self.html.split_once(&start).unwrap_or_else(|| panic!("no figure {id}"));
        rest.split_once("</figure>").unwrap().0
    }

    /// A figure's file, row by row.
    fn csv(&self, id: &str) -> Vec<csv::StringRecord> {
        let link = format!("\" download=\"{id}.csv\"");
        let figure = self.figure(id);
        let (before, _) = figure.split_once(&link).unwrap_or_else(|| panic!("no file of {id}"));
        let url = before.rsplit_once("href=\"").unwrap().1;
        let text = unescaped(url.strip_prefix("data:text/csv;charset=utf-8,").unwrap());
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_slice());
        reader.records().map(Result::unwrap).collect()
    }
}

fn unescaped(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            out.push(u8::from_str_radix(&text[at + 1..at + 3], 16).unwrap());
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}

fn synthetic() -> (tempfile::TempDir, Report) {
    let folder = tempfile::tempdir().unwrap();
    fixture::write(folder.path()).unwrap();
    let report = Report::of(folder.path());
    (folder, report)
}

fn scenario() -> Scenario {
    toml::from_str(fixture::SCENARIO).unwrap()
}

#[test]
fn the_fixture_has_every_kind_of_figure_and_of_evidence() {
    let scenario = scenario();
    for kind in [
        FigureKind::Bars,
        FigureKind::Lines,
        FigureKind::DualAxis,
        FigureKind::OverTime,
        FigureKind::Histogram,
        FigureKind::HistogramZoom,
        FigureKind::Stacked,
        FigureKind::Hockey,
        FigureKind::Table,
    ] {
        assert!(scenario.figures.iter().any(|figure| figure.kind == kind), "{kind:?}");
    }
    let labels: Vec<&str> = scenario.arms.iter().map(|arm| arm.evidence.label()).collect();
    for label in ["real", "scaled", "emulated", "simulated", "imported"] {
        assert!(labels.contains(&label), "{label}");
    }
}

#[test]
fn nothing_is_fetched() {
    let (_folder, report) = synthetic();
    let markup = report.markup();
    for address in ["http:", "https:", "//", "@import", "url(", " src=", "<link", "<iframe", "<img"] {
        assert!(!markup.contains(address), "{address}");
    }
    for address in markup.split("href=\"").skip(1) {
        assert!(address.starts_with('#') || address.starts_with("data:text/csv"), "{address:.40}");
    }
    assert!(report.html.contains("default-src 'none'"), "the browser is told to fetch nothing either");
}

#[test]
fn every_figure_has_a_table_and_a_file_with_the_same_rows() {
    let (_folder, report) = synthetic();
    let ours = ["lab-effectiveness", "lab-steady-state", "lab-control", "lab-limiter"].map(str::to_owned);
    for id in scenario().figures.into_iter().map(|figure| figure.id).chain(ours) {
        let rows = report.csv(&id);
        let figure = report.figure(&id);
        assert!(rows.len() > 1, "{id}");
        assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{id}");
        let shown = figure.split_once("<tbody>").unwrap().1.matches("<tr>").count();
        assert!(
            shown == rows.len() - 1
                || figure.replace(',', "").contains(&format!("has all {} rows", rows.len() - 1)),
            "{id}"
        );
        assert!(figure.contains("<details open class=\"data"), "{id}: open without scripts");
    }
}

#[test]
fn effectiveness_has_a_row_for_each_arm_with_a_bar_from_zero_and_its_interval() {
    let (_folder, report) = synthetic();
    let figure = report.figure("lab-effectiveness");
    let rows =
        figure.matches("<div class=\"row\">").count() + figure.matches("<div class=\"row absent\">").count();
    assert_eq!(rows, scenario().arms.len());
    let bars = figure.matches("<span class=\"reach").count();
    assert!(bars > 1 && figure.matches("<span class=\"whisker").count() == bars, "{bars} bars");
    for width in figure.split("style=\"width:").skip(1) {
        let percent: f64 = width.split_once('%').unwrap().0.parse().unwrap();
        assert!((0.0..=100.0).contains(&percent), "{percent}");
    }
}

#[test]
fn every_chart_begins_at_zero_and_has_intervals_and_labels() {
    let (_folder, report) = synthetic();
    assert!(report.charts.len() > 12, "{}", report.charts.len());
    for chart in &report.charts {
        let id = chart["id"].as_str().unwrap();
        assert!(!chart["watermark"].as_str().unwrap().is_empty(), "{id}");
        for series in chart["series"].as_array().unwrap() {
            let name = series["name"].as_str().unwrap();
            let labels = ["(real", "(scaled", "(emulated", "(simulated", "(imported"];
            assert!(labels.iter().any(|label| name.contains(label)), "{id}: {name}");
            assert!(!series["points"].as_array().unwrap().is_empty(), "{id}: {name}");
            for point in series["points"].as_array().unwrap() {
                let [value, low, high] = [1, 2, 3].map(|place: usize| point[place].as_f64().unwrap());
                assert!(low <= value && value <= high, "{id}: {point}");
                let axis = &chart["y"][usize::try_from(series["axis"].as_u64().unwrap()).unwrap()];
                assert!(axis["zero"] == true || chart["shape"] == "dots", "{id}");
            }
        }
    }
}

#[test]
fn a_file_holds_what_the_chart_draws() {
    let (_folder, report) = synthetic();
    let rows = report.csv("iops-by-size");
    let column = rows[0].iter().position(|head| head == "IOPS").unwrap();
    let chart = report.charts.iter().find(|chart| chart["id"] == "iops-by-size-0").unwrap();
    let mut drawn: Vec<f64> = chart["series"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|series| series["points"].as_array().unwrap())
        .map(|point| point[1].as_f64().unwrap())
        .collect();
    let mut filed: Vec<f64> = rows[1..].iter().map(|row| row[column].parse().unwrap()).collect();
    drawn.sort_by(f64::total_cmp);
    filed.sort_by(f64::total_cmp);
    assert_eq!(drawn, filed);
}

#[test]
fn what_is_wrong_with_results_is_said() {
    let (_folder, report) = synthetic();
    for words in [
        "points/999-cut-off/A-1/result.json",
        "12 of 40,000, the first: I/O error",
        "pairs 1, 4: others used the processors (7 % of the machine, 5 % allowed)",
        "bs=256k iodepth=32 rw=randread",
        "an RDMA-capable adapter",
        "The publication&#39;s axis of IOPS begins at 500",
        "Published, not run here",
        "the smallest difference that this bench can show",
    ] {
        assert!(report.html.contains(words), "{words}");
    }
}

#[test]
fn the_load_stands_first_with_its_commands() {
    let (_folder, report) = synthetic();
    let load = report.html.split_once("<section id=\"load\">").unwrap().1;
    let (load, after) = load.split_once("</section>").unwrap();
    for words in [
        "<dt>block size</dt>",
        "<dt>pattern</dt>",
        "<dt>runtime</dt>",
        "<dt>volumes</dt>",
        "<dt>command of arm A</dt>",
    ] {
        assert!(load.contains(words), "{words}");
    }
    let of_a = load.split_once("<dt>command of arm A</dt>").unwrap().1.split_once("</div>").unwrap().0;
    assert!(!of_a.contains("<details"), "{of_a}");
    let of_b = load.split_once("<dt>command of arm B</dt>").unwrap().1.split_once("</div>").unwrap().0;
    let (beginning, whole) = of_b.split_once("</summary>").unwrap();
    assert!(beginning.contains("--name=load0") && beginning.ends_with(" words more"), "{beginning}");
    assert!(!beginning.contains("--name=load31") && whole.contains("--name=load31"), "{of_b}");
    assert!(after.trim_start().starts_with("<section id=\"summary\">"));
    assert!(report.html.contains("<dt>disturbed</dt>"));
}

#[test]
fn line_rates_of_several_links_say_whose_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let text = catalogue::load("marvell-41000.l2.iperf").unwrap().text;
    fixture::write_scenario(folder.path(), &text, Extent::Quick).unwrap();
    let report = Report::of(folder.path());
    for words in ["line rate of A 2.391 Gbit/s", "line rate of B 0.9564 Gbit/s"] {
        assert!(report.html.contains(words), "{words}");
    }
    let text = catalogue::load("solarflare-nvme-tcp.2x").unwrap().text;
    let folder = tempfile::tempdir().unwrap();
    fixture::write_scenario(folder.path(), &text, Extent::Quick).unwrap();
    let report = Report::of(folder.path());
    assert!(
        report.html.contains("line rate of B 239.1 MB/s"),
        "nothing goes over the link of A, which is local"
    );
}

#[test]
fn an_arm_that_did_not_run_is_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    fixture::write_scenario(folder.path(), fixture::SCENARIO, Extent::Quick).unwrap();
    for measured in measurements(&folder.path().join("points")) {
        if measured.file_name().unwrap().to_str().unwrap().starts_with("B-") {
            std::fs::remove_dir_all(measured).unwrap();
        }
    }
    let path = folder.path().join("run.json");
    let mut run: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    run["warnings"] = vec!["bs=4k: arm B is left out: tgtd is missing: apt install tgt"].into();
    std::fs::write(&path, run.to_string()).unwrap();
    let html = Report::of(folder.path()).html;
    assert!(
        html.contains("did not run: tgtd is missing: apt install tgt."),
        "{}",
        html.split_once("Summary</h2>").unwrap().1.get(..600).unwrap()
    );
}

#[test]
fn every_claim_has_a_verdict() {
    let (_folder, report) = synthetic();
    for claim in scenario().claims {
        let (_, row) = report.html.split_once(&format!("<tr id=\"claim-{}\">", claim.id)).unwrap();
        let row = row.split_once("</tr>").unwrap().0;
        let verdicts = ["reproduced", "contradicted", "not enough", "not testable here"];
        assert!(verdicts.iter().any(|verdict| row.contains(&format!(">{verdict}<"))), "{row}");
    }
    assert!(report.html.contains("Added over local at "), "beside a claim on latency");
}

#[test]
fn prices_of_the_site_make_work_for_the_price_testable_and_stand_with_the_load() {
    let folder = tempfile::tempdir().unwrap();
    let text = catalogue::load("linerate.cost").unwrap().text;
    fixture::write_scenario(folder.path(), &text, Extent::Full).unwrap();
    let row = |html: &str| {
        let (_, row) = html.split_once("<tr id=\"claim-cost-effective\">").unwrap();
        row.split_once("</tr>").unwrap().0.to_owned()
    };
    let without = Report::of(folder.path()).html;
    assert!(row(&without).contains("no prices in the site file: [prices.each]"), "{}", row(&without));
    assert!(row(&without).contains("inferred: of these two"), "{}", row(&without));
    assert!(!without.contains("<dt>price of arm A</dt>"));
    let path = folder.path().join("run.json");
    let mut run: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let each = serde_json::json!({"host": 4200, "adapter": 690});
    let parts = serde_json::json!({"A": {"host": 2}, "B": {"host": 2, "adapter": 2}});
    run["site"]["prices"] = serde_json::json!({"currency": "USD", "each": each, "parts": parts});
    std::fs::write(&path, run.to_string()).unwrap();
    let priced = Report::of(folder.path());
    assert!(priced.html.contains("9780 USD (2 adapter at 690, 2 host at 4200)"));
    assert!(row(&priced.html).contains(">reproduced<"), "{}", row(&priced.html));
    let unit = "IOPS per unit of currency";
    assert!(priced.figure("work-for-the-price").contains(unit));
}

#[test]
fn names_are_no_markup() {
    let folder = tempfile::tempdir().unwrap();
    let name = "<script>alert(1)</script><b>\\\"";
    let text = fixture::SCENARIO.replace("linerate initiator", name).replace("Rate and processor", name);
    fixture::write_scenario(folder.path(), &text, Extent::Quick).unwrap();
    let report = Report::of(folder.path());
    assert!(!report.html.contains("<script>alert") && !report.html.contains("<b>\""));
    assert!(
        report.html.contains("&lt;script&gt;alert(1)") || report.html.contains("&#60;script&#62;alert(1)")
    );
}

#[test]
fn the_same_run_gives_the_same_report() {
    let (folder, first) = synthetic();
    assert_eq!(first.html, Report::of(folder.path()).html);
    let left: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("draft"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn every_scenario_gives_a_report_with_all_its_figures() {
    for loaded in catalogue::list().unwrap() {
        let folder = tempfile::tempdir().unwrap();
        fixture::write_scenario(folder.path(), &loaded.text, Extent::Full).unwrap();
        let report = Report::of(folder.path());
        let is_own = loaded.scenario.id.starts_with("linerate.") && loaded.scenario.source.is_own();
        assert_eq!(
            report.html.contains("publication&#39;s claims") || report.html.contains("publication's claims"),
            !is_own && !loaded.scenario.claims.is_empty(),
            "{}: whose claims they are",
            loaded.scenario.id
        );
        for figure in &loaded.scenario.figures {
            let id = format!("{}: {}", loaded.scenario.id, figure.id);
            if loaded.scenario.arms.is_empty() {
                assert!(report.figure(&figure.id).contains("Nothing was measured"), "{id}");
            } else {
                assert!(report.csv(&figure.id).len() > 1, "{id}");
                let drawn = report
                    .charts
                    .iter()
                    .any(|chart| chart["id"].as_str().unwrap().rsplit_once('-').unwrap().0 == figure.id);
                assert!(drawn || figure.kind == FigureKind::Table, "{id}");
            }
        }
    }
}

#[test]
fn what_is_no_run_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let error = format!("{:#}", lab_report::write(folder.path()).unwrap_err());
    assert!(error.contains("is not a run directory of the lab") && error.contains("run.json"), "{error}");
    std::fs::write(folder.path().join("run.json"), "{\"schema\": 99}").unwrap();
    let error = format!("{:#}", lab_report::write(folder.path()).unwrap_err());
    assert!(error.contains("newer lab"), "{error}");
}

/// A synthetic run, sealed as the runner seals one.
fn sealed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fixture::write_scenario(folder.path(), fixture::SCENARIO, Extent::Full).unwrap();
    let mut lines = String::new();
    let mut previous = String::new();
    let mut names = vec!["scenario.toml".to_owned(), "run.json".to_owned()];
    for result in ["points", "control"].iter().flat_map(|block| measurements(&folder.path().join(block))) {
        names.push(result.strip_prefix(folder.path()).unwrap().display().to_string());
    }
    for name in names {
        let seal = Seal::of(folder.path(), &name, &previous).unwrap();
        previous = seal.digest();
        lines.push_str(&(serde_json::to_string(&seal).unwrap() + "\n"));
    }
    std::fs::write(folder.path().join(lab_model::seal::LEDGER), lines).unwrap();
    folder
}

/// The folders that hold a result.
fn measurements(folder: &Path) -> Vec<PathBuf> {
    if folder.join("result.json").is_file() {
        return vec![folder.to_path_buf()];
    }
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).flat_map(|path| measurements(&path)).collect()
}

#[test]
fn a_sealed_run_is_vouched_for() {
    let report = Report::of(sealed().path());
    assert!(report.html.contains("files are as the run sealed them; digest of the seals: "));
    assert!(!report.html.contains("does not count"));
}

#[test]
fn a_result_that_was_changed_since_does_not_count_and_is_named() {
    let folder = sealed();
    let changed = measurements(&folder.path().join("points")).into_iter().min().unwrap().join("result.json");
    let text = std::fs::read_to_string(&changed).unwrap();
    std::fs::write(&changed, text.replacen("\"iops\"", "\"iops\" ", 1)).unwrap();
    let name = changed.strip_prefix(folder.path()).unwrap().display().to_string();
    let html = Report::of(folder.path()).html;
    assert!(html.contains(&format!("{name} does not count: {name} was changed")));
}

#[test]
fn a_result_that_says_something_else_than_its_tool_does_not_count_though_its_seals_are_new() {
    let folder = tempfile::tempdir().unwrap();
    fixture::write(folder.path()).unwrap();
    let own = measurements(&folder.path().join("points")).into_iter().min().unwrap();
    let raw = "{\"jobs\": [{\"jobname\": \"lab\", \"read\": {\"total_ios\": 1, \"io_bytes\": 4096, \"iops\": 1.0, \
        \"bw_bytes\": 4096.0, \"lat_ns\": {\"mean\": 1.0}}, \"write\": {\"total_ios\": 0, \"io_bytes\": 0, \"iops\": 0.0, \
        \"bw_bytes\": 0.0, \"lat_ns\": {\"mean\": 0.0}}}]}";
    std::fs::write(own.join("fio.json"), raw).unwrap();
    let name = own.strip_prefix(folder.path()).unwrap().join("result.json").display().to_string();
    let html = Report::of(folder.path()).html;
    assert!(html.contains(&format!("{name} does not count: fio.json beside it says ")), "{name}");
}

#[test]
fn a_run_whose_claims_were_changed_gets_no_report() {
    for file in ["scenario.toml", "run.json"] {
        let folder = sealed();
        let path = folder.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text + "\n").unwrap();
        let said = format!("{:#}", lab_report::write(folder.path()).unwrap_err());
        assert!(said.ends_with("no verdict can be given on a run whose evidence was changed"), "{said}");
    }
}
