//! Percent-encoding of paths, names and option values (RFC 3986 §2.1).

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::piece::{Fault, Piece};

/// The text with every `%XX` replaced by its byte. A `+` stays a `+`.
pub(crate) fn decode(piece: Piece<'_>) -> Result<String, Fault> {
    let mut bytes = Vec::with_capacity(piece.text.len());
    let mut rest = piece;
    while let Some((plain, after)) = rest.split_once('%') {
        bytes.extend_from_slice(plain.text.as_bytes());
        bytes.push(hex_byte(after)?);
        rest = after.from(2);
    }
    bytes.extend_from_slice(rest.text.as_bytes());
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| piece.fault("the %-escapes do not make UTF-8", "write the name in UTF-8"))?;
    if text.contains('\0') {
        return Err(piece.fault("a zero byte is in the name", "leave %00 out"));
    }
    Ok(text)
}

fn hex_byte(piece: Piece<'_>) -> Result<u8, Fault> {
    let digits = piece.first(2);
    let hex = digits.text.len() == 2 && digits.text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let byte = if hex { u8::from_str_radix(digits.text, 16).ok() } else { None };
    byte.ok_or_else(|| piece.fault("two hexadecimal digits must follow a %", "write %25 for the sign itself"))
}

/// Writes `text`, escaping what `marks` lists, the percent sign and what is not printable; in the alternate form also what means something within the
/// brackets of a composite volume.
pub(crate) fn encode(f: &mut fmt::Formatter<'_>, text: &str, marks: &str) -> fmt::Result {
    let brackets = if f.alternate() { ",[]" } else { "" };
    for letter in text.chars() {
        let is_mark = marks.contains(letter) || brackets.contains(letter);
        if letter == '%' || letter == ' ' || letter.is_control() || is_mark {
            let mut space = [0; 4];
            for byte in letter.encode_utf8(&mut space).bytes() {
                write!(f, "%{byte:02X}")?;
            }
        } else {
            write!(f, "{letter}")?;
        }
    }
    Ok(())
}
