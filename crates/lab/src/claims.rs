//! Headline claims of the publications, tested one by one.
