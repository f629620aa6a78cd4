//! The exit codes of `linerate lab`, and what `--help` says of them.

/// Something of a run is worth nothing, or it did not come about.
pub(super) const INVALID: u8 = 2;
/// A scenario cannot be tested here.
pub(super) const NOT_TESTABLE: u8 = 3;

/// What `--help` says of exit codes.
pub(super) const HELP: &str = "Exit codes:
  0  all is well
  1  a regression was found (regress)
  2  a measurement failed or is invalid, each named by INVALID; or the run was stopped or did not come about; or the command
     line is wrong
  3  the scenario cannot be tested here: what is missing is named";
