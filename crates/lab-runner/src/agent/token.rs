//! The secret that a lab and its agents share, and the proofs that they know it.
//!
//! The token itself never crosses the network: each side sends a nonce and proves the token by HMAC-SHA-256 (RFC 2104) over both
//! nonces. A third proof, which nobody sends, keys the seals of all later frames ([`super::channel`]).

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::hex;
use super::limits::{LEAST_TOKEN, MOST_TOKEN};

/// A nonce, a proof or a key: as long as SHA-256's output.
pub(super) type Block = [u8; 32];

/// The shared secret. It has no text form: it must not reach a log.
#[derive(Clone)]
pub struct Token(Vec<u8>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// What a proof is for; none can stand in for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The lab proves itself to the agent.
    Lab,
    /// The agent proves itself to the lab.
    Agent,
    /// Nobody sends it: it keys the seals.
    Seal,
}

impl Purpose {
    const fn label(self) -> &'static [u8] {
        match self {
            Self::Lab => b"linerate lab agent 1: lab",
            Self::Agent => b"linerate lab agent 1: agent",
            Self::Seal => b"linerate lab agent 1: seal",
        }
    }
}

impl Token {
    /// Reads a token file: one secret, white space around it left out, readable by its owner alone.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let file = File::open(path).with_context(|| {
            format!("cannot read the token file {shown}: make one with `(umask 077; head -c 32 /dev/urandom | base64 >FILE)`")
        })?;
        let mode = file.metadata().with_context(|| format!("cannot look at {shown}"))?.permissions().mode();
        if mode & 0o077 != 0 {
            bail!("others may read or change the token file {shown}: `chmod 600` it");
        }
        let mut bytes = Vec::new();
        let most = u64::try_from(MOST_TOKEN)? + 1;
        file.take(most).read_to_end(&mut bytes).with_context(|| format!("cannot read {shown}"))?;
        Self::new(&bytes).with_context(|| format!("the token file {shown}"))
    }

    /// Makes a token file that must not be there yet, with a random token.
    pub fn make(path: &Path) -> Result<Self> {
        let text = hex::encode(&nonce()?);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("cannot make the token file {}", path.display()))?;
        Self::new(text.as_bytes())
    }

    fn new(bytes: &[u8]) -> Result<Self> {
        let bytes = bytes.trim_ascii();
        if !(LEAST_TOKEN..=MOST_TOKEN).contains(&bytes.len()) {
            bail!("a token has {LEAST_TOKEN} to {MOST_TOKEN} bytes, this one has {}", bytes.len());
        }
        Ok(Self(bytes.to_vec()))
    }

    fn mac(&self, purpose: Purpose, nonces: &Nonces) -> Result<Hmac<Sha256>> {
        Ok(mac(&self.0)?.chain_update(purpose.label()).chain_update(nonces.agent).chain_update(nonces.lab))
    }

    /// The proof of the token for a purpose.
    pub(super) fn proof(&self, purpose: Purpose, nonces: &Nonces) -> Result<Block> {
        Ok(self.mac(purpose, nonces)?.finalize().into_bytes().into())
    }

    /// Whether a proof is right; takes the same time for every wrong one.
    pub(super) fn verifies(&self, purpose: Purpose, nonces: &Nonces, proof: &[u8]) -> Result<bool> {
        Ok(self.mac(purpose, nonces)?.verify_slice(proof).is_ok())
    }
}

/// HMAC-SHA-256 with a key; it takes keys of any length.
pub(super) fn mac(key: &[u8]) -> Result<Hmac<Sha256>> {
    Hmac::new_from_slice(key).map_err(|_| anyhow!("HMAC-SHA-256 refuses a key of {} bytes", key.len()))
}

/// Both sides' fresh numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nonces {
    pub(super) agent: Block,
    pub(super) lab: Block,
}

/// A number that nobody can foresee.
pub(super) fn nonce() -> Result<Block> {
    let mut block = [0; 32];
    getrandom::fill(&mut block).map_err(|error| anyhow!("the system gives no random numbers: {error}"))?;
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCES: Nonces = Nonces { agent: [1; 32], lab: [2; 32] };

    #[test]
    fn a_proof_holds_for_its_token_purpose_and_nonces_alone() {
        let token = Token::new(b"sixteen bytes ok\n").unwrap();
        let other = Token::new(b"sixteen bytes OK").unwrap();
        let proof = token.proof(Purpose::Lab, &NONCES).unwrap();
        assert!(token.verifies(Purpose::Lab, &NONCES, &proof).unwrap());
        assert!(!token.verifies(Purpose::Agent, &NONCES, &proof).unwrap());
        assert!(!other.verifies(Purpose::Lab, &NONCES, &proof).unwrap());
        let swapped = Nonces { agent: NONCES.lab, lab: NONCES.agent };
        assert!(!token.verifies(Purpose::Lab, &swapped, &proof).unwrap());
        assert!(!token.verifies(Purpose::Lab, &NONCES, &proof[..31]).unwrap());
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let made = Token::make(&path).unwrap();
        assert_eq!(Token::read(&path).unwrap().0, made.0);
        assert!(Token::make(&path).is_err(), "it must not replace one");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Token::read(&path).unwrap_err().to_string().contains("chmod 600"));
    }

    #[test]
    fn short_long_and_absent_tokens_are_refused_and_none_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        assert!(Token::read(&path).unwrap_err().to_string().contains("urandom"));
        assert!(Token::new(b"fifteen bytes..").is_err() && Token::new(&[b'x'; MOST_TOKEN + 1]).is_err());
        assert!(!format!("{:?}", Token::new(b"sixteen bytes ok").unwrap()).contains("sixteen"));
    }
}
