//! How an event looks as a line: for people, or as one JSON object. Names that a peer chose are escaped, and secrets hidden.

use host::Event;
use names::redact;
use serde::{Deserialize, Serialize};

/// How a line looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// For people and grep.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// A line as JSON.
#[derive(Debug, Serialize)]
struct Record<'a> {
    time: String,
    level: &'static str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    initiator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    volume: Option<&'a str>,
    reason: String,
}

/// A name as it can stand in a line: what a terminal or a reader would take for something else is escaped.
fn clean(text: &str) -> String {
    let plain = |letter: char| !letter.is_control() && !letter.is_whitespace() || letter == ' ';
    let escaped: String = text
        .chars()
        .flat_map(|letter| {
            let kept = plain(letter) && letter.is_ascii() && letter != '"' && letter != '\\';
            let escaped = (!kept).then(|| letter.escape_default());
            kept.then_some(letter).into_iter().chain(escaped.into_iter().flatten())
        })
        .collect();
    redact(&escaped)
}

/// The line of an event, with its end.
pub(super) fn line(format: Format, event: &Event) -> String {
    let volume = event.volume.as_deref();
    let time = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
    let reason = redact(&event.reason.replace(['\n', '\r'], " "));
    let (initiator, target) = (event.initiator.as_deref().map(clean), event.target.as_deref().map(clean));
    let peer = event.peer.map(|peer| peer.to_string());
    if format == Format::Json {
        let (level, kind) = (event.level.word(), event.kind.word());
        let record = Record { time, level, kind, peer, initiator, target, volume, reason };
        // Strings alone always serialise.
        return serde_json::to_string(&record).map_or_else(|_| String::new(), |text| text + "\n");
    }
    let mut line = format!("{time} {:<5} {}", event.level.word().to_uppercase(), event.kind.word());
    let quoted = |text: String| if text.contains(' ') { format!("{text:?}") } else { text };
    for (key, value) in
        [("peer", peer), ("initiator", initiator), ("target", target), ("volume", volume.map(str::to_owned))]
    {
        if let Some(value) = value {
            line.extend([" ", key, "=", &quoted(value)]);
        }
    }
    line.extend([": ", &reason, "\n"]);
    line
}

#[cfg(test)]
mod tests {
    use host::Kind;

    use super::*;

    #[test]
    fn what_a_peer_calls_itself_cannot_forge_a_line() {
        let evil = "nqn.2026-11.a:b\n2026-11-23 ERROR io\u{1b}[31m \u{202e}secret=MARKER";
        let event = Event {
            initiator: Some(evil.to_owned()),
            target: Some("x\ty".to_owned()),
            ..Event::new(Kind::Refused, "no")
        };
        for format in [Format::Text, Format::Json] {
            let text = line(format, &event);
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(
                text.replace('…', "").is_ascii()
                    && !text.contains(['\u{1b}', '\t'])
                    && !text.contains("MARKER"),
                "{text:?}"
            );
        }
    }

    #[test]
    fn json_holds_every_part() {
        let event = Event {
            peer: Some("[::1]:7".parse().unwrap()),
            initiator: Some("iqn.a".to_owned()),
            target: Some("iqn.b".to_owned()),
            volume: Some("disk".into()),
            ..Event::new(Kind::Io, "gone")
        };
        let text = line(Format::Json, &event);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        for (key, expected) in [
            ("level", "error"),
            ("kind", "io"),
            ("peer", "[::1]:7"),
            ("initiator", "iqn.a"),
            ("target", "iqn.b"),
            ("volume", "disk"),
            ("reason", "gone"),
        ] {
            assert_eq!(value[key], expected, "{text}");
        }
        assert!(value["time"].as_str().unwrap().ends_with('Z'));
    }
}
