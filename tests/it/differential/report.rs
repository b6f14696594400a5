//! Where two answers differ first, for a human.

use std::fmt::Write;

/// How many bytes are shown before and after the first one that differs.
const CONTEXT: usize = 48;

/// `None` when both are equal, else a dump of both around the first difference.
pub(super) fn difference(expected: &[u8], found: &[u8]) -> Option<String> {
    if expected == found {
        return None;
    }
    let common = expected.iter().zip(found).take_while(|(a, b)| a == b).count();
    let mut out = format!(
        "first difference at byte {common}, in packet {} of the answer; lengths {} and {}\n",
        packet_at(expected, common),
        expected.len(),
        found.len()
    );
    for (side, bytes) in [("direct", expected), ("other", found)] {
        dump(&mut out, side, bytes, common);
    }
    Some(out)
}

/// The end of what was received.
pub(super) fn tail(bytes: &[u8]) -> String {
    let mut out = format!("{} bytes had come\n", bytes.len());
    dump(&mut out, "came", bytes, bytes.len());
    out
}

/// The number, from 0, of the packet that holds byte `at`.
fn packet_at(bytes: &[u8], at: usize) -> usize {
    let mut start = 0;
    let mut number = 0;
    while let Some([a, b, c, _]) = bytes.get(start..start + 4) {
        start += 4 + u32::from_le_bytes([*a, *b, *c, 0]) as usize;
        if at < start {
            break;
        }
        number += 1;
    }
    number
}

fn dump(out: &mut String, side: &str, bytes: &[u8], at: usize) {
    let start = at.saturating_sub(CONTEXT) / 16 * 16;
    let end = bytes.len().min(at + CONTEXT);
    for (row, chunk) in bytes[start.min(end)..end].chunks(16).enumerate() {
        let hex: String = chunk.iter().map(|byte| format!("{byte:02x} ")).collect();
        let text: String =
            chunk.iter().map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' }).collect();
        let _ = writeln!(out, "  {side:6} {:08x}  {hex:48} {text}", start + row * 16);
    }
}

#[test]
fn a_difference_is_shown_with_its_place() {
    let expected = [b"\x01\0\0\x01\x05\x02\0\0\x02".as_slice(), b"ab"].concat();
    let mut found = expected.clone();
    assert_eq!(difference(&expected, &found), None);
    found[10] = b'X';
    let text = difference(&expected, &found).unwrap();
    assert!(text.contains("byte 10, in packet 1"), "{text}");
    assert!(text.contains("61 62") && text.contains("61 58"), "{text}");
    found.truncate(3);
    assert!(difference(&expected, &found).unwrap().contains("byte 3, in packet 0"));
}
