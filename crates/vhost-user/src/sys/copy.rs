//! Copies between this process' memory and memory that another process may change meanwhile.
//!
//! A copy of that is not one of Rust's: the compiler must neither take for granted that what was read stays so nor read twice. Short pieces go through atomics, a word at a time. Longer ones
//! go by an instruction of the processor's that the compiler does not look into; with words 128 KiB take more than twice as long.

/// Bytes from which on the instruction is faster: it takes some tens of cycles to begin.
pub(super) const LONG: usize = 512;

/// Copies `len` bytes, if this processor's kind has an instruction for it; otherwise does nothing, and says so.
///
/// # Safety
/// `from` can be read and `to` can be written for `len` bytes, which do not overlap. Nobody in this process has a reference to what others may change.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize) -> bool {
    // SAFETY: the caller's word. The direction flag is clear between instructions of Rust's. If memory was taken away, the instruction goes on where it stood once there are zeros in its place.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
    true
}

/// See above.
///
/// # Safety
/// None is needed.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(super) unsafe fn copy_long(_from: *const u8, _to: *mut u8, _len: usize) -> bool {
    false
}
