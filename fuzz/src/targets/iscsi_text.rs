//! iSCSI text (RFC 7143 §6.1, §6.2): the pairs, the values of the keys, and what a negotiation makes of them.

use iscsi::chap::{self, Algorithm};
use iscsi::keys::{self, DigestPolicy, Parameters, Rule, Tuning};
use iscsi::limits::{
    LEAST_LENGTH, LONGEST_BINARY, LONGEST_CHALLENGE, LONGEST_KEY, LONGEST_VALUE, MOST_KEYS, MOST_LENGTH,
    MOST_TEXT,
};
use iscsi::text::{self, Pairs, Text};

/// Values of CHAP's keys.
///
/// # Panics
/// When a value that was accepted is not the same once it is written again: that is what the fuzzer looks for.
pub fn chap_values(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(value) = chap::decode(text) {
        assert!(value.len() <= LONGEST_CHALLENGE, "{} bytes", value.len());
        assert_eq!(chap::decode(&chap::encode(&value)).as_ref(), Some(&value));
        assert!(chap::equal(&value, &value));
    }
    if let Some(algorithm) = Algorithm::read(text) {
        assert_eq!(Algorithm::read(&algorithm.number().to_string()), Some(algorithm));
    }
    if let Some(chosen) = Algorithm::choose(text, &Algorithm::ALL) {
        assert!(text.split(',').any(|offered| Algorithm::read(offered) == Some(chosen)));
    }
    if let Some(number) = text::number(text) {
        assert_eq!(text::number(&number.to_string()), Some(number));
        assert_eq!(text::number(&format!("{number:#x}")), Some(number));
    }
}

/// Text as it comes with logins: whole, collected in pieces, and written again.
///
/// # Panics
/// When pairs differ once they are written again, or exceed their limits: that is what the fuzzer looks for.
pub fn login_text(bytes: &[u8]) {
    let read: Vec<_> = Pairs::new(bytes).collect();
    assert!(read.len() <= MOST_KEYS + 1, "{} pairs", read.len());
    let mut written = Text::new();
    for (key, value) in read.iter().flatten() {
        assert!((1..=LONGEST_KEY).contains(&key.len()) && value.len() <= LONGEST_BINARY);
        written.put(key, value);
    }
    let again: Vec<_> = written.pairs().collect();
    assert!(again.iter().flatten().eq(read.iter().flatten()), "{read:?} became {again:?}");

    let mut collected = Text::new();
    let whole = bytes.chunks(7).all(|part| collected.collect(part).is_ok());
    assert_eq!(whole, bytes.len() <= MOST_TEXT);
    assert!(!whole || collected.bytes() == bytes);
}

fn policy(byte: u8) -> DigestPolicy {
    match byte % 3 {
        0 => DigestPolicy::Off,
        1 => DigestPolicy::Allow,
        _ => DigestPolicy::Require,
    }
}

/// What this side wants, as eight bytes choose it.
fn tuning([digests, flags, segment, burst, first, r2t, wait, retain]: [u8; 8]) -> Tuning {
    let length = |byte: u8| (LEAST_LENGTH << (byte % 15)).min(MOST_LENGTH);
    Tuning {
        header_digest: policy(digests),
        data_digest: policy(digests / 3),
        segment: length(segment),
        max_burst: length(burst),
        first_burst: length(first),
        initial_r2t: flags & 1 != 0,
        immediate_data: flags & 2 != 0,
        outstanding_r2t: r2t.into(),
        time2wait: wait.into(),
        time2retain: retain.into(),
        rdma: None,
    }
}

fn check_range(parameters: &Parameters) {
    let lengths = [parameters.peer_segment, parameters.max_burst, parameters.first_burst];
    assert!(lengths.iter().all(|length| (LEAST_LENGTH..=MOST_LENGTH).contains(length)), "{parameters:?}");
    assert!(parameters.outstanding_r2t > 0 && parameters.unsolicited() <= parameters.max_burst);
    assert!(parameters.time2wait <= 3600 && parameters.time2retain <= 3600, "{parameters:?}");
}

/// A negotiation: eight bytes choose what this side wants, the rest is the peer's text, as an offer and as an answer.
///
/// # Panics
/// When a value outside its range is agreed on, or the two ends understand it differently: that is what the fuzzer looks for.
pub fn negotiation(bytes: &[u8]) {
    let Some((chosen, rest)) = bytes.split_first_chunk() else { return };
    let ours = tuning(*chosen);
    let (mut responder, mut originator) = (Parameters::default(), Parameters::default());
    for (name, value) in Pairs::new(rest).flatten() {
        let Some(key) = keys::find(name) else { continue };
        if let Some(answer) = responder.respond(key, value, &ours) {
            assert!(answer.len() <= LONGEST_VALUE, "{name}={value} is answered with {} bytes", answer.len());
            assert!(!answer.is_empty() && !answer.contains('\0'));
        }
        check_range(&responder);
        let before = originator;
        if originator.accept(key, value, &ours).is_err() {
            assert_eq!(originator, before, "{name}={value} was refused and changed something");
        }
        check_range(&originator);
        // What only one side declares may be anything; what both negotiate stays within what was offered.
        if let (Rule::Least(..), "MaxBurstLength") = (key.rule, key.name) {
            assert!(originator.max_burst <= ours.max_burst || originator == before);
        }
    }
}
