//! The JSON Schemas under `schema/`: they are those of the types, and they refuse what carries no label.
//!
//! `UPDATE_SCHEMAS=1 cargo test -p lab-model --test schema` writes them anew. The checker below knows as much of JSON Schema
//! 2020-12 as schemars writes, so that a refusal is the schema's own and not that of the types.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail where it stands")]

use std::path::PathBuf;

use lab_model::result::PointResult;
use lab_model::scenario::Scenario;
use lab_model::scenario::catalogue;
use schemars::schema_for;
use serde_json::{Value, json};

fn schemas() -> [(&'static str, Value); 2] {
    let value = |schema: schemars::Schema| serde_json::to_value(schema).unwrap();
    [("scenario", value(schema_for!(Scenario))), ("result", value(schema_for!(PointResult)))]
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../schema/{name}.json"))
}

/// A schema as it is checked in.
fn kept(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path(name)).unwrap()).unwrap()
}

#[test]
fn the_schemas_are_those_of_the_types() {
    for (name, schema) in schemas() {
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            std::fs::write(path(name), &text).unwrap();
        }
        let kept = std::fs::read_to_string(path(name)).unwrap_or_default();
        assert_eq!(kept, text, "stale: UPDATE_SCHEMAS=1 cargo test -p lab-model --test schema");
    }
}

/// What of a value a schema refuses: the path of each place, and why.
fn refusals(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, (schema, value), "", &mut found);
    found
}

fn check(root: &Value, (schema, value): (&Value, &Value), at: &str, found: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        let part = root.pointer(name.trim_start_matches('#')).unwrap();
        check(root, (part, value), at, found);
    }
    for word in ["oneOf", "anyOf"] {
        let Some(choices) = schema[word].as_array() else { continue };
        let fits = |choice: &&Value| {
            let mut inner = Vec::new();
            check(root, (choice, value), at, &mut inner);
            inner.is_empty()
        };
        let count = choices.iter().filter(fits).count();
        if count == 0 || (word == "oneOf" && count > 1) {
            found.push(format!("{at}: fits {count} of {word}"));
        }
    }
    let fits = |kind: &Value| match kind.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("the checker does not know the type {other}"),
    };
    let typed = match &schema["type"] {
        Value::Null => true,
        Value::Array(kinds) => kinds.iter().any(fits),
        kind => fits(kind),
    };
    if !typed {
        found.push(format!("{at}: is no {}", schema["type"]));
    }
    if schema.get("const").is_some_and(|only| only != value) {
        found.push(format!("{at}: is not {}", schema["const"]));
    }
    if schema["enum"].as_array().is_some_and(|all| !all.contains(value)) {
        found.push(format!("{at}: is none of {}", schema["enum"]));
    }
    if schema["minimum"].as_f64().zip(value.as_f64()).is_some_and(|(least, value)| value < least) {
        found.push(format!("{at}: is below {}", schema["minimum"]));
    }
    check_object(root, (schema, value), at, found);
    check_array(root, (schema, value), at, found);
}

fn check_object(root: &Value, (schema, value): (&Value, &Value), at: &str, found: &mut Vec<String>) {
    let Some(object) = value.as_object() else { return };
    for name in schema["required"].as_array().into_iter().flatten() {
        if !object.contains_key(name.as_str().unwrap()) {
            found.push(format!("{at}: {name} is missing"));
        }
    }
    for (name, inner) in object {
        let at = format!("{at}/{name}");
        match schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]) {
            Value::Bool(false) => found.push(format!("{at}: is unknown")),
            Value::Null | Value::Bool(true) => {}
            part => check(root, (part, inner), &at, found),
        }
    }
}

fn check_array(root: &Value, (schema, value): (&Value, &Value), at: &str, found: &mut Vec<String>) {
    let Some(items) = value.as_array() else { return };
    let first = schema["prefixItems"].as_array();
    for (index, item) in items.iter().enumerate() {
        let part = first.and_then(|first| first.get(index)).unwrap_or(&schema["items"]);
        if part.is_object() {
            check(root, (part, item), &format!("{at}/{index}"), found);
        }
    }
}

fn result() -> Value {
    json!({
        "schema": 1, "run": "r", "scenario": "linerate.quick", "scenario_hash": "00", "arm": "A",
        "point": [{"axis": "bs", "value": "4k"}], "repetition": 1, "order": 1,
        "started": "2026-01-01T00:00:00Z", "seconds": 1.0,
        "evidence": {"kind": "scaled", "factor": "link 0.1"},
        "tool": {"name": "fio", "version": "3.33", "argv": ["fio"]},
        "load": {"read": {"ios": 1, "bytes": 4096, "iops": 1.0, "bytes_per_second": 4096.0}, "errors": 0},
        "cpu": {
            "processors": 2, "host": {"user": 0.1, "system": 0.1}, "softirq": 0.0, "steal": 0.0, "foreign": 0.0,
            "machine_percent": [1.0, 2.0, 3.0], "method": "cgroup2"
        }
    })
}

#[test]
fn a_labelled_result_passes() {
    let schema = kept("result");
    assert_eq!(refusals(&schema, &result()), Vec::<String>::new());
    serde_json::from_value::<PointResult>(result()).unwrap();
}

/// Changes the result, and sees that neither the schema nor the types take it.
#[track_caller]
fn refused(change: impl Fn(&mut Value), part: &str) {
    let mut value = result();
    change(&mut value);
    let found = refusals(&kept("result"), &value);
    assert!(found.iter().any(|one| one.contains(part)), "{part:?} is not in {found:?}");
    assert!(serde_json::from_value::<PointResult>(value).is_err());
}

#[test]
fn a_result_without_a_label_is_refused() {
    refused(|value| drop(value.as_object_mut().unwrap().remove("evidence")), "\"evidence\" is missing");
    refused(|value| value["evidence"] = Value::Null, "/evidence");
    refused(|value| value["evidence"] = json!({"kind": "offload"}), "/evidence");
    refused(|value| value["evidence"] = json!({"kind": "scaled"}), "/evidence");
    refused(|value| value["evidence"] = json!({"kind": "emulated", "factor": "0.1"}), "/evidence");
    refused(|value| value["series"] = json!([]), "/series: is unknown");
    refused(|value| value["seconds"] = json!("one"), "/seconds");
}

#[test]
fn an_arm_without_a_label_is_refused() {
    let schema = kept("scenario");
    for loaded in catalogue::list().unwrap() {
        let value: Value = toml::from_str(&loaded.text).unwrap();
        assert_eq!(refusals(&schema, &value), Vec::<String>::new(), "{}", loaded.origin);
        let Some(arm) = value.pointer("/arm/0") else { continue };
        let mut value = value.clone();
        let mut bare = arm.clone();
        bare.as_object_mut().unwrap().remove("evidence");
        value["arm"][0] = bare;
        let found = refusals(&schema, &value);
        assert!(found.iter().any(|one| one.contains("/arm/0: \"evidence\" is missing")), "{found:?}");
    }
}
