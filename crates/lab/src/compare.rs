//! Two runs side by side: `lab compare` and `lab regress`.
