//! CHAP accounts: their secrets are read once, before anything starts, and compared with each other (RFC 7143 §9.2.1).

use std::path::Path;

use anyhow::{Context, Result, bail};
use iscsi::chap::{Algorithm, Credentials, Secret};
use iscsi::target::Chap;

use crate::config::{AccessEntry, ChapEntry, Config};
use crate::findings::Findings;
use crate::secrets;

/// The accounts of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Accounts {
    rules: Vec<Option<Chap>>,
    discovery: Option<Chap>,
}

impl Accounts {
    /// Reads all secrets. What is wrong, and what is doubtful but no mistake, is added to the findings: what could not be read is missing
    /// in the answer.
    pub(crate) fn read(config: &Config, findings: &mut Findings) -> Self {
        let mut read = |chap: &ChapEntry, place: &dyn Fn() -> String| {
            let account = account(chap, &mut findings.warnings).with_context(place);
            account.map_err(|error| findings.problems.push(format!("{error:#}"))).ok()
        };
        let rules = config.access.iter().zip(1..).map(|(entry, number)| {
            entry.chap.as_ref().and_then(|chap| read(chap, &|| format!("[[access]] entry {number}")))
        });
        let rules = rules.collect();
        let discovery = config.discovery.chap.as_ref();
        let discovery = discovery.and_then(|chap| read(chap, &|| "[discovery]".to_owned()));
        let accounts = Self { rules, discovery };
        findings.require(accounts.check_directions());
        findings.require(accounts.check_users(config));
        accounts.tell_shared(&mut findings.warnings);
        accounts
    }

    /// The account of the rule in this place of the configuration.
    pub(crate) fn of_rule(&self, index: usize) -> Option<&Chap> {
        self.rules.get(index)?.as_ref()
    }

    /// The account for discovery sessions.
    pub(crate) fn discovery(&self) -> Option<&Chap> {
        self.discovery.as_ref()
    }

    fn all(&self) -> impl Iterator<Item = &Chap> {
        self.rules.iter().flatten().chain(&self.discovery)
    }

    /// A secret that initiators prove must not be one that the target proves, of any account.
    fn check_directions(&self) -> Result<()> {
        for us in self.all().filter_map(|chap| chap.target.as_ref()) {
            if let Some(them) = self.all().find(|chap| chap.initiator.secret == us.secret) {
                bail!(
                    "chap: the user {:?} and the mutual_user {:?} have the same secret: whoever knows it can pose as either end \
                     (RFC 7143 §9.2.1); give the target a secret of its own",
                    them.initiator.user,
                    us.user
                );
            }
        }
        Ok(())
    }

    /// One user has one secret wherever one initiator could prove either.
    fn check_users(&self, config: &Config) -> Result<()> {
        let rules =
            || config.access.iter().zip(&self.rules).filter_map(|(rule, chap)| Some((rule, chap.as_ref()?)));
        for (index, (rule, chap)) in rules().enumerate() {
            let clash = rules().skip(index + 1).find(|(other, account)| {
                account.initiator.user == chap.initiator.user && account != &chap && meet(config, rule, other)
            });
            if clash.is_some() {
                bail!(
                    "chap: two [[access]] entries give the user {:?} different secrets for the same initiators: which one counts \
                     would be chance; give one of them another user",
                    chap.initiator.user
                );
            }
        }
        Ok(())
    }

    fn tell_shared(&self, warnings: &mut Vec<String>) {
        let accounts: Vec<&Chap> = self.all().collect();
        for (index, chap) in accounts.iter().enumerate() {
            let shares = |other: &&&Chap| {
                other.initiator.secret == chap.initiator.secret && other.initiator.user != chap.initiator.user
            };
            if let Some(other) = accounts.iter().skip(index + 1).find(shares) {
                warnings.push(format!(
                    "chap: the users {:?} and {:?} have the same secret: each can pose as the other; give each its own",
                    chap.initiator.user, other.initiator.user
                ));
            }
        }
    }
}

/// True when one login could fall under both rules.
fn meet(config: &Config, one: &AccessEntry, other: &AccessEntry) -> bool {
    let named = one.initiators.is_empty()
        || other.initiators.is_empty()
        || one.initiators.iter().any(|name| other.initiators.contains(name));
    let mut targets = config.volumes.iter().map(crate::VolumeEntry::target);
    named && targets.any(|target| one.concerns(config, target) && other.concerns(config, target))
}

fn account(entry: &ChapEntry, warnings: &mut Vec<String>) -> Result<Chap> {
    let mut credentials = |user: &str, file: &Path| -> Result<Credentials> {
        Ok(Credentials { user: user.to_owned(), secret: Secret::new(secrets::read(file, warnings)?) })
    };
    let initiator = credentials(&entry.user, &entry.secret_file)?;
    let target = match (&entry.mutual_user, &entry.mutual_secret_file) {
        (Some(user), Some(file)) => Some(credentials(user, file)?),
        _ => None,
    };
    Ok(Chap { initiator, target, algorithms: Algorithm::ALL.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a configuration whose secrets are files of these contents.
    fn read(access: &str, secrets: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, secret) in secrets {
            let path = folder.path().join(name);
            std::fs::write(&path, secret).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        }
        let file = folder.path().join("config.toml");
        let volumes = "[[volume]]\nname='a'\nurl='ram:1M'\n[[volume]]\nname='b'\nurl='ram:1M'\n";
        std::fs::write(&file, format!("{volumes}{access}")).unwrap();
        let config = Config::read(&file).unwrap();
        config.check().unwrap();
        let mut findings = Findings::default();
        Accounts::read(&config, &mut findings);
        if findings.problems.is_empty() { Ok(findings.warnings) } else { Err(findings.problems.join("\n")) }
    }

    const ONE: (&str, &str) = ("one", "MARKER-secret-number-1");
    const TWO: (&str, &str) = ("two", "MARKER-secret-number-2");

    #[test]
    fn equal_secrets_of_both_directions_are_a_mistake_wherever_they_stand() {
        let copy = ("copy", ONE.1);
        for access in [
            "[[access]]\nchap={user='i',secret_file='one',mutual_user='t',mutual_secret_file='one'}",
            "[[access]]\nchap={user='i',secret_file='one',mutual_user='t',mutual_secret_file='copy'}",
            "[[access]]\nvolume='a'\nchap={user='i',secret_file='one'}\n[[access]]\nvolume='b'\nchap={user='j',secret_file='two',mutual_user='t',mutual_secret_file='copy'}",
            "[discovery]\nchap={user='i',secret_file='one'}\n[[access]]\nchap={user='j',secret_file='two',mutual_user='t',mutual_secret_file='copy'}",
        ] {
            let error = read(access, &[ONE, TWO, copy]).unwrap_err();
            assert!(error.contains("the same secret") && error.contains("§9.2.1"), "{access}: {error}");
            assert!(!error.contains("MARKER"), "{error}");
        }
    }

    #[test]
    fn one_user_with_two_secrets_is_a_mistake_only_where_both_could_count() {
        let both = |one: &str, other: &str| {
            format!(
                "[[access]]\n{one}\nchap={{user='u',secret_file='one'}}\n[[access]]\n{other}\nchap={{user='u',secret_file='two'}}"
            )
        };
        let (a, b) = ("initiators=['iqn.2026-11.test:a']", "initiators=['iqn.2026-11.test:b']");
        for (one, other, fine) in [
            ("", "", false),
            (a, "", false),
            (a, a, false),
            (a, b, true),
            ("volume='a'", "volume='b'", true),
            ("volume='a'", "volume='a'", false),
            ("volume='a'", "target='a'", false),
        ] {
            let result = read(&both(one, other), &[ONE, TWO]);
            assert_eq!(result.is_ok(), fine, "{one} {other}: {result:?}");
            assert!(!format!("{result:?}").contains("MARKER"), "{result:?}");
        }
    }

    #[test]
    fn what_is_only_doubtful_is_told() {
        let access = "[[access]]\nvolume='a'\nchap={user='i',secret_file='one'}\n[[access]]\nvolume='b'\nchap={user='j',secret_file='one'}";
        let warnings = read(access, &[ONE]).unwrap();
        assert!(warnings.iter().any(|line| line.contains("can pose as the other")), "{warnings:?}");
        let alone = "[[access]]\nchap={user='i',secret_file='one',mutual_user='t',mutual_secret_file='two'}";
        assert_eq!(read(alone, &[ONE, TWO]), Ok(Vec::new()));
        let short =
            read("[discovery]\nchap={user='i',secret_file='short'}", &[("short", "MARKER")]).unwrap_err();
        assert!(short.contains("at least 12") && !short.contains("MARKER"), "{short}");
    }
}
