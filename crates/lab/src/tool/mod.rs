//! Tools that put load on, and what their output means.
