//! Numbers of the standards that have names, each in one list: statuses of NFS 3, NFS 4 and MOUNT, and operations and procedures.

/// The statuses of `Status(pub u32)`: a constant for each, and the standard's names for people.
///
/// `NFS4, nfsstat4;` says that statuses are called `NFS4_OK` and `NFS4ERR_…`, and a value without a name `nfsstat4` and its number.
macro_rules! statuses {
    ($prefix:ident, $type:ident; $($(#[doc = $doc:literal])* $name:ident = $value:literal;)*) => {
        impl Status {
            $($(#[doc = $doc])* pub const $name: Self = Self($value);)*

            /// Every status of the standard.
            pub const ALL: &'static [Self] = &[$(Self($value),)*];

            /// The standard's name, without its prefix; `None` for a value that the standard does not have.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// True for [`Status::OK`].
            pub fn is_ok(self) -> bool {
                self == Self::OK
            }
        }

        impl core::fmt::Debug for Status {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some("OK") => f.write_str(concat!(stringify!($prefix), "_OK")),
                    Some(name) => write!(f, concat!(stringify!($prefix), "ERR_{}"), name),
                    None => write!(f, concat!(stringify!($type), " {}"), self.0),
                }
            }
        }

        impl core::fmt::Display for Status {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Debug::fmt(self, f)
            }
        }
    };
}

/// The numbers of a type of one `u32`: a constant for each, and its name in the standard.
///
/// `OpNumber, "OP_", "ILLEGAL";` is the type, the prefix of the standard's names, and what a number without a name is called.
macro_rules! numbers {
    ($type:ident, $prefix:literal, $other:literal; $($name:ident = $value:literal;)*) => {
        impl $type {
            $(#[doc = concat!($prefix, stringify!($name), ".")] pub const $name: Self = Self($value);)*

            /// Every number that has a name.
            pub const ALL: &'static [Self] = &[$(Self($value),)*];

            /// The standard's name, without its prefix.
            pub fn name(self) -> &'static str {
                match self.0 {
                    $($value => stringify!($name),)*
                    _ => $other,
                }
            }
        }
    };
}

pub(crate) use {numbers, statuses};
