//! Other tools' logs as results: labelled as imported, never as measured here.
