//! Handles of a served folder: the kernel's name for an object, and a code that only this server can make.
//!
//! The kernel opens any object of the file system by its handle, whoever made that up, wherever it lies. The code (HMAC-SHA-256, cut) lets only handles through that
//! were given out; they name the same object over restarts, as the key is kept.

use filesystem::{FileErrorKind, FileHandle};
use hmac::{Hmac, KeyInit, Mac};
use host::KernelHandle;
use sha2::Sha256;

use super::limits::{HANDLE_CODE, HANDLE_HEAD, KERNEL_HANDLE, KEY};

/// Makes and checks handles.
pub(super) struct Sealer {
    /// With the key in it, from which each code goes on. A key of any length is one.
    keyed: Option<Hmac<Sha256>>,
}

impl Sealer {
    pub(super) fn new(key: [u8; KEY]) -> Self {
        Self { keyed: Hmac::<Sha256>::new_from_slice(&key).ok() }
    }

    /// A code that only this server can make of these bytes.
    pub(super) fn code(&self, bytes: &[u8]) -> [u8; HANDLE_CODE] {
        let mut code = [0; HANDLE_CODE];
        if let Some(mut mac) = self.keyed.clone() {
            mac.update(bytes);
            code.iter_mut().zip(mac.finalize().into_bytes()).for_each(|(to, from)| *to = from);
        }
        code
    }

    /// The handle of what the kernel calls so; [`FileErrorKind::NotSupported`] if that is too long.
    pub(super) fn seal(&self, kernel: &KernelHandle) -> Result<FileHandle, FileErrorKind> {
        if kernel.bytes.len() > KERNEL_HANDLE {
            return Err(FileErrorKind::NotSupported);
        }
        let mut handle = [0; HANDLE_HEAD + KERNEL_HANDLE + HANDLE_CODE];
        let (head, rest) = handle.split_at_mut(HANDLE_HEAD);
        head.copy_from_slice(&kernel.kind.to_be_bytes());
        rest.iter_mut().zip(&kernel.bytes).for_each(|(to, from)| *to = *from);
        let (named, code) = handle.split_at_mut(HANDLE_HEAD + kernel.bytes.len());
        code.iter_mut().zip(self.code(named)).for_each(|(to, from)| *to = from);
        let len = named.len() + HANDLE_CODE;
        handle.get(..len).and_then(FileHandle::new).ok_or(FileErrorKind::NotSupported)
    }

    /// What the kernel calls the object of a handle that was given out.
    pub(super) fn unseal(&self, handle: &FileHandle) -> Result<KernelHandle, FileErrorKind> {
        let (head, code) =
            handle.as_bytes().split_last_chunk::<HANDLE_CODE>().ok_or(FileErrorKind::BadHandle)?;
        // All bytes are compared, so that the time tells nothing of how many are right.
        let differing = self.code(head).iter().zip(code).filter(|(right, given)| right != given).count();
        if differing > 0 {
            return Err(FileErrorKind::BadHandle);
        }
        let (kind, bytes) = head.split_first_chunk::<HANDLE_HEAD>().ok_or(FileErrorKind::BadHandle)?;
        Ok(KernelHandle { kind: i32::from_be_bytes(*kind), bytes: bytes.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use filesystem::NFS3_HANDLE_BYTES;

    use super::*;

    #[test]
    fn only_what_was_sealed_is_let_through() {
        let sealer = Sealer::new([7; KEY]);
        let kernel = KernelHandle { kind: -3, bytes: vec![1; KERNEL_HANDLE] };
        let handle = sealer.seal(&kernel).unwrap();
        assert_eq!(
            (handle.as_bytes().len(), sealer.unseal(&handle)),
            (NFS3_HANDLE_BYTES, Ok(kernel.clone()))
        );
        assert_eq!(Sealer::new([8; KEY]).unseal(&handle), Err(FileErrorKind::BadHandle));
        for bit in 0..NFS3_HANDLE_BYTES * 8 {
            let mut bytes = handle.as_bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(sealer.unseal(&FileHandle::new(&bytes).unwrap()), Err(FileErrorKind::BadHandle));
        }
        let long = KernelHandle { bytes: vec![1; KERNEL_HANDLE + 1], ..kernel };
        assert_eq!(sealer.seal(&long), Err(FileErrorKind::NotSupported));
    }
}
