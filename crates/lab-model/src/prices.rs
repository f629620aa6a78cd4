//! What a site pays for what its arms consist of, so that work can be set against its price.
//!
//! A price is a fact of one site and one day, and no publication gives any. Where the site file lacks one, the claims that ask for
//! it are not testable, and the sentence names the part without a price.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// The `[prices]` of a site file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prices {
    /// What they are in, such as `USD`.
    pub currency: Option<String>,
    /// The price of one of each part: `host`, `adapter`, `port`, `cable`, `drive`, or whatever the site calls it.
    pub each: BTreeMap<String, f64>,
    /// How many of each part an arm consists of, by `SCENARIO/KEY` (`linerate.cost/B`) or the key alone.
    pub parts: BTreeMap<String, BTreeMap<String, f64>>,
}

/// Why an arm has no price.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unpriced {
    /// The site has no prices at all.
    #[error("no prices in the site file: [prices.each] says what a host, an adapter or a drive costs")]
    NoPrices,
    /// It does not say what the arm consists of.
    #[error("no parts of arm {arm} in the site file: [prices.parts.{arm}] says of what it consists")]
    NoParts {
        /// The arm's key.
        arm: String,
    },
    /// One of the arm's parts has no price.
    #[error("no price of {part} in the site file, and arm {arm} has {count} of them")]
    NoPrice {
        /// The part.
        part: String,
        /// The arm's key.
        arm: String,
        /// How many the arm has.
        count: f64,
    },
}

impl Prices {
    /// What an arm of a scenario costs, in the site's currency.
    ///
    /// # Errors
    /// A part without a price, or an arm without parts.
    pub fn of(&self, scenario: &str, arm: &str) -> Result<f64, Unpriced> {
        if self.each.is_empty() {
            return Err(Unpriced::NoPrices);
        }
        let parts = self.parts_of(scenario, arm).ok_or_else(|| Unpriced::NoParts { arm: arm.to_owned() })?;
        let mut sum = 0.0;
        for (part, &count) in parts {
            let price = self.each.get(part).ok_or_else(|| Unpriced::NoPrice {
                part: part.clone(),
                arm: arm.to_owned(),
                count,
            })?;
            sum += price * count;
        }
        Ok(sum)
    }

    /// Why some of these arms have no price, a sentence each.
    pub fn lacking(&self, scenario: &str, arms: &BTreeSet<&str>) -> Vec<String> {
        let mut reasons: Vec<String> = arms
            .iter()
            .filter_map(|arm| self.of(scenario, arm).err())
            .map(|reason| reason.to_string())
            .collect();
        reasons.dedup();
        reasons
    }

    /// An arm's price and what it is made of: `9780 USD (2 adapter at 690, 2 host at 4200)`.
    ///
    /// # Errors
    /// As [`Prices::of`].
    pub fn words(&self, scenario: &str, arm: &str) -> Result<String, Unpriced> {
        let sum = self.of(scenario, arm)?;
        let parts = self.parts_of(scenario, arm).into_iter().flatten();
        let parts: Vec<String> = parts
            .map(|(part, count)| {
                format!("{count} {part} at {}", self.each.get(part).copied().unwrap_or_default())
            })
            .collect();
        let currency = self.currency.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
        Ok(format!("{sum}{currency} ({})", parts.join(", ")))
    }

    /// Refuses prices and parts with which nothing can be computed.
    ///
    /// # Errors
    /// A negative or endless price, or an arm that costs nothing.
    pub fn check(&self) -> Result<()> {
        for (part, price) in &self.each {
            ensure!(
                price.is_finite() && *price >= 0.0,
                "prices.each.{part} is {price}: a price is zero or more"
            );
        }
        for (arm, parts) in &self.parts {
            for (part, count) in parts {
                ensure!(
                    count.is_finite() && *count > 0.0,
                    "prices.parts.{arm}.{part} is {count}: leave out what the arm does not have"
                );
            }
            let known = parts.iter().filter_map(|(part, count)| Some(self.each.get(part)? * count));
            let all_known = parts.keys().all(|part| self.each.contains_key(part));
            ensure!(
                !all_known || known.sum::<f64>() > 0.0,
                "prices.parts.{arm} costs nothing, and nothing can be divided by that"
            );
        }
        Ok(())
    }

    fn parts_of(&self, scenario: &str, arm: &str) -> Option<&BTreeMap<String, f64>> {
        self.parts.get(&format!("{scenario}/{arm}")).or_else(|| self.parts.get(arm))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices(rest: &str) -> Prices {
        toml::from_str(&format!("currency='USD'\n[each]\nhost=4200\nadapter=690\n{rest}")).unwrap()
    }

    #[test]
    fn an_arm_costs_what_its_parts_cost_and_a_full_name_goes_before_a_key() {
        let prices = prices("[parts.A]\nhost=2\nadapter=2\n[parts.'f.n/A']\nhost=1\n");
        assert_eq!(prices.of("f.m", "A"), Ok(9780.0));
        assert_eq!(prices.of("f.n", "A"), Ok(4200.0));
        assert_eq!(prices.words("f.m", "A").unwrap(), "9780 USD (2 adapter at 690, 2 host at 4200)");
        prices.check().unwrap();
    }

    #[test]
    fn what_has_no_price_is_named() {
        let arms = BTreeSet::from(["A", "B"]);
        assert_eq!(
            Prices::default().lacking("f.n", &arms),
            ["no prices in the site file: [prices.each] says what a host, an adapter or a drive costs"]
        );
        assert_eq!(
            prices("[parts.A]\nhost=1\nswitch=2\n").lacking("f.n", &arms),
            [
                "no price of switch in the site file, and arm A has 2 of them",
                "no parts of arm B in the site file: [prices.parts.B] says of what it consists"
            ]
        );
    }

    #[test]
    fn prices_that_cannot_be_computed_with_are_refused() {
        for (rest, part) in [
            ("drive=-1\n", "prices.each.drive"),
            ("drive=inf\n", "prices.each.drive"),
            ("[parts.A]\nhost=0\n", "leave out"),
            ("gift=0\n[parts.A]\ngift=1\n", "costs nothing"),
        ] {
            let error = prices(rest).check().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
