//! COM_STMT_EXECUTE: the statement's id, and the types of the parameters, which clients send only once.
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_execute.html>

use std::ops::Range;

use super::{Capabilities, Malformed, header::Header, reader::Reader};

/// Bits of the flags that open a cursor; the others are about parameters.
const CURSOR_TYPES: u8 = 0b0111;
/// The number of parameters is in the packet, as query attributes come with them.
const PARAMETER_COUNT_AVAILABLE: u8 = 0b1000;
/// Where the statement's id is in the payload.
const ID: Range<usize> = 1..5;
/// Where the flags are.
const FLAGS: usize = 5;

/// What a COM_STMT_EXECUTE says of its parameters' types, as places in the payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Types {
    /// There are no parameters.
    None,
    /// They are here.
    Sent(Range<usize>),
    /// Those of an earlier execution of the statement hold. The flag that says so is here.
    Omitted(usize),
}

impl Types {
    /// Reads the beginning of `payload`, command byte included, for a statement with `params` parameters.
    ///
    /// # Errors
    /// When it is malformed, or `payload` ends before the values do begin.
    pub fn parse(payload: &[u8], params: u16, capabilities: Capabilities) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        reader.u8("command")?;
        reader.u32("statement id")?;
        let flags = reader.u8("flags")?;
        reader.u32("iteration count")?;
        let mut count = u64::from(params);
        let counted = flags & PARAMETER_COUNT_AVAILABLE != 0;
        if capabilities.query_attributes() && (params > 0 || counted) {
            count = reader.lenenc_int("number of parameters")?;
        }
        if count == 0 {
            return Ok(Self::None);
        }
        let count = usize::try_from(count).map_err(|_| Malformed::Truncated("parameters"))?;
        reader.bytes(count.div_ceil(8), "NULL bitmap")?;
        let place = |reader: &Reader<'_>| payload.len() - reader.remaining().len();
        let flag = place(&reader);
        if reader.u8("new parameters flag")? == 0 {
            return Ok(Self::Omitted(flag));
        }
        for _ in 0..count {
            reader.u16("parameter type")?;
            if capabilities.query_attributes() {
                reader.lenenc_bytes("parameter name")?;
            }
        }
        Ok(Self::Sent(flag + 1..place(&reader)))
    }
}

/// The statement that a command of the prepared statement family is about.
pub fn statement_id(payload: &[u8]) -> Option<u32> {
    Reader::new(payload.get(1..)?).u32("statement id").ok()
}

/// Whether a COM_STMT_EXECUTE asks for a cursor instead of rows.
pub fn asks_for_cursor(payload: &[u8]) -> bool {
    payload.get(FLAGS).is_some_and(|flags| flags & CURSOR_TYPES != 0)
}

/// Appends a command of that family for another server, where the statement has another
/// `id`; `types` go where `payload` has none.
pub fn put(out: &mut Vec<u8>, payload: &[u8], id: u32, types: Option<(usize, &[u8])>) {
    let start = out.len();
    match types.and_then(|(flag, types)| Some((payload.get(..flag)?, types, payload.get(flag + 1..)?))) {
        Some((before, types, values)) => {
            let body = [before, &[1], types, values].concat();
            super::writer::put_packet(out, 0, &body);
        }
        None => {
            super::writer::put_packet(out, 0, payload);
        }
    }
    rename(out.get_mut(start..).unwrap_or_default(), id);
}

/// Gives the statement in a command of that family, header included, another `id`.
pub fn rename(command: &mut [u8], id: u32) {
    if let Some(place) = command.get_mut(Header::LEN + ID.start..Header::LEN + ID.end) {
        place.copy_from_slice(&id.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_common::constants::{CapabilityFlags, MariadbCapabilities};

    const PLAIN: Capabilities =
        Capabilities { flags: CapabilityFlags::empty(), mariadb: MariadbCapabilities::empty() };
    const ATTRIBUTES: Capabilities = Capabilities {
        flags: CapabilityFlags::CLIENT_QUERY_ATTRIBUTES,
        mariadb: MariadbCapabilities::empty(),
    };

    fn execute(flags: u8, rest: &[u8]) -> Vec<u8> {
        [&[0x17, 7, 0, 0, 0, flags, 1, 0, 0, 0], rest].concat()
    }

    #[test]
    fn types_are_found() {
        for (capabilities, params, flags, rest, types) in [
            (PLAIN, 0, 0, &[][..], Types::None),
            (PLAIN, 1, 0, &[0, 1, 3, 0, 42, 0, 0, 0], Types::Sent(12..14)),
            (PLAIN, 1, 0, &[0, 0, 42, 0, 0, 0], Types::Omitted(11)),
            (PLAIN, 9, 0, &[0, 0, 0], Types::Omitted(12)),
            (ATTRIBUTES, 0, 0, &[], Types::None),
            (ATTRIBUTES, 0, 8, &[0], Types::None),
            (ATTRIBUTES, 1, 0, &[1, 0, 1, 3, 0, 0, 42, 0, 0, 0], Types::Sent(13..16)),
            (ATTRIBUTES, 1, 8, &[2, 0, 1, 3, 0, 0, 3, 0, 1, b'n', 42], Types::Sent(13..20)),
            (ATTRIBUTES, 1, 8, &[1, 0, 0, 42], Types::Omitted(12)),
        ] {
            let payload = execute(flags, rest);
            assert_eq!(Types::parse(&payload, params, capabilities), Ok(types), "{rest:?}");
        }
        assert!(asks_for_cursor(&execute(1, &[])) && !asks_for_cursor(&execute(8, &[])));
        for rest in [&[][..], &[0], &[0, 1, 3]] {
            assert!(Types::parse(&execute(0, rest), 1, PLAIN).is_err(), "{rest:?}");
        }
        assert_eq!(statement_id(&execute(0, &[])), Some(7));
        assert_eq!(statement_id(&[0x19, 1]), None);
    }

    #[test]
    fn a_statement_is_renamed_and_gets_its_types() {
        let sent = execute(0, &[0, 1, 3, 0, 42]);
        let omitted = execute(0, &[0, 0, 42]);
        let mut out = vec![9];
        put(&mut out, &omitted, 0x0102_0304, Some((11, &[3, 0])));
        let mut expected = [&[9, 15, 0, 0, 0][..], &sent].concat();
        expected[6..10].copy_from_slice(&[4, 3, 2, 1]);
        assert_eq!(out, expected);
        out.clear();
        put(&mut out, &sent, 7, None);
        assert_eq!(out, [&[15, 0, 0, 0][..], &sent].concat());
    }
}
