//! What a byte stream needs of a login: the digests that this side insists on (RFC 7143 §13.1).

use crate::datamover::{KeyValues, Unacceptable};
use crate::keys::DigestPolicy;
use crate::violation::Violation;

const NO_HEADER_DIGEST: &str =
    "HeaderDigest=CRC32C, which this side requires: switch it on there, or leave header_digest= out";
const NO_DATA_DIGEST: &str =
    "DataDigest=CRC32C, which this side requires: switch it on there, or leave data_digest= out";

/// Whether the digests are used that this side requires, however the peer left one out: by a refusal, by another answer, or by none, as None is the
/// default.
pub(super) fn check_digests(values: KeyValues<'_>) -> Result<(), Unacceptable> {
    let KeyValues { agreed, wanted, .. } = values;
    for (policy, is_used, advice) in [
        (wanted.header_digest, agreed.header_digest, NO_HEADER_DIGEST),
        (wanted.data_digest, agreed.data_digest, NO_DATA_DIGEST),
    ] {
        if policy == DigestPolicy::Require && !is_used {
            return Err(Unacceptable { violation: Violation::DigestRequired, advice });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{Parameters, SessionType, Tuning};

    #[test]
    fn a_digest_that_is_required_is_missed_by_name() {
        let policies = [DigestPolicy::Off, DigestPolicy::Allow, DigestPolicy::Require];
        for (header_digest, data_digest) in
            policies.iter().flat_map(|one| policies.map(|other| (*one, other)))
        {
            let wanted = Tuning { header_digest, data_digest, ..Tuning::default() };
            for (header, data) in [(false, false), (false, true), (true, false), (true, true)] {
                let agreed = Parameters { header_digest: header, data_digest: data, ..Parameters::default() };
                let session = SessionType::Normal;
                let found = check_digests(KeyValues { agreed: &agreed, wanted: &wanted, session });
                let missing = |policy, used: bool| policy == DigestPolicy::Require && !used;
                let expected = if missing(header_digest, header) {
                    Err(NO_HEADER_DIGEST)
                } else if missing(data_digest, data) {
                    Err(NO_DATA_DIGEST)
                } else {
                    Ok(())
                };
                assert_eq!(found.map_err(|missed| missed.advice), expected, "{wanted:?} {agreed:?}");
            }
        }
    }
}
