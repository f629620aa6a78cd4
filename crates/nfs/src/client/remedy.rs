//! What a user can do about what a server answers while a volume is opened, where it is the same in every version. What a version has for itself stands with its statuses.

pub(super) const USER: &str = "the server does not let this user: check the file's owner and mode and how the export squashes users, or name a user with uid= and gid=";
pub(super) const READ_ONLY: &str = "the file system is read-only there: write readonly+ before the URL";
pub(super) const NO_DIRECTORY: &str = "a name before the last is no directory: check the path";
pub(super) const BUSY: &str = "the server is busy: try again";
pub(super) const LONG_NAME: &str = "a name in the path is too long for the server";
pub(super) const NO_SPACE: &str = "there is no space for it";
pub(super) const LOG: &str = "the server's log may say more";
