//! The lab on another host: starts and stops what a scenario needs there, and collects what it costs.
