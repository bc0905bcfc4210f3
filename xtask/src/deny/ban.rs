//! One entry of `bans.deny`: a package that is not wanted at all, or not below a version.

use crate::Failure;
use toml::Value;

/// A ban with its reason.
#[derive(Debug)]
pub(super) struct Ban {
    name: String,
    /// The first version that is good again; none where every version is banned.
    good_from: Option<[u64; 3]>,
    /// Why.
    pub(super) reason: String,
}

impl Ban {
    /// Reads `{ crate = "name", reason = "…" }` or `{ crate = "name:<1.2.3", … }`. Other forms that cargo-deny knows
    /// are refused: a ban that is not understood must not be skipped.
    pub(super) fn read(entry: &Value) -> Result<Self, Failure> {
        let text = |field: &str| entry.get(field).and_then(Value::as_str);
        let (Some(specification), Some(reason)) = (text("crate"), text("reason")) else {
            return Err(format!("deny.toml: this ban needs `crate` and `reason`: {entry:?}").into());
        };
        let (name, good_from) = match specification.split_once(':') {
            // cargo-deny reads `name@1.2.3` as this version alone.
            None if specification.contains('@') => {
                return Err(format!("deny.toml: only `name:<1.2.3` is understood: {specification}").into());
            }
            None => (specification, None),
            Some((name, range)) => {
                let minimum = range.strip_prefix('<').and_then(version);
                (name, Some(minimum.ok_or_else(|| format!("deny.toml: only `<1.2.3` is understood: {specification}"))?))
            }
        };
        Ok(Self { name: name.to_owned(), good_from, reason: reason.to_owned() })
    }

    /// Does it ban this version of this package? A version that cannot be read counts as banned.
    pub(super) fn hits(&self, name: &str, found: &str) -> bool {
        self.name == name
            && match (self.good_from, version(found)) {
                (Some(good_from), Some(found)) => found < good_from,
                _ => true,
            }
    }
}

/// Major, minor and patch; whatever follows a `-` or `+` is left out.
fn version(text: &str) -> Option<[u64; 3]> {
    let core = text.split(['-', '+']).next()?;
    let mut parts = core.split('.').map(|part| part.parse::<u64>().ok());
    let version = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ban(text: &str) -> Result<Ban, Failure> {
        let table: toml::Table = text.parse().expect("a table");
        Ban::read(&Value::Table(table))
    }

    #[test]
    fn a_ban_without_a_version_hits_every_version() {
        let ban = ban("crate = \"a\"\nreason = \"b\"").expect("a ban");
        assert!(ban.hits("a", "0.0.1") && ban.hits("a", "99.0.0"));
        assert!(!ban.hits("ab", "0.0.1"));
    }

    #[test]
    fn a_minimum_hits_what_is_below_it() {
        let ban = ban("crate = \"a:<0.23.46\"\nreason = \"b\"").expect("a ban");
        assert!(ban.hits("a", "0.23.45") && ban.hits("a", "0.9.100"));
        assert!(!ban.hits("a", "0.23.46") && !ban.hits("a", "0.24.0") && !ban.hits("a", "1.0.0+b"));
    }

    #[test]
    fn a_ban_that_is_not_understood_is_refused() {
        assert!(ban("crate = \"a:=1.0.0\"\nreason = \"b\"").is_err());
        assert!(ban("crate = \"a@1.0.0\"\nreason = \"b\"").is_err());
        assert!(ban("crate = \"a\"").is_err());
    }
}
