//! COM_QUERY: attributes before the text.

use super::{Capabilities, Command, Malformed, reader::Reader, writer::PutField};
use bytes::BufMut;
use mysql_common::constants::ColumnType;

/// The statement's text in a COM_QUERY payload (command byte included).
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query.html>
///
/// # Errors
/// When the attributes are malformed.
pub fn text(payload: &[u8], capabilities: Capabilities) -> Result<&[u8], Malformed> {
    let mut reader = Reader::new(payload);
    reader.u8("command")?;
    if capabilities.query_attributes() {
        let count = reader.lenenc_int("number of attributes")?;
        reader.lenenc_int("number of attribute sets")?;
        if count > 0 {
            skip_attributes(&mut reader, count)?;
        }
    }
    Ok(reader.rest())
}

/// Appends the payload of a COM_QUERY of the proxy's own.
pub fn put(out: &mut Vec<u8>, capabilities: Capabilities, text: &[u8]) {
    out.put_u8(Command::COM_QUERY as u8);
    if capabilities.query_attributes() {
        out.put_lenenc_int(0);
        out.put_lenenc_int(1);
    }
    out.put_slice(text);
}

/// Moves past `count` attributes: a NULL bitmap, types and names, values.
fn skip_attributes(reader: &mut Reader<'_>, count: u64) -> Result<(), Malformed> {
    let count = usize::try_from(count).map_err(|_| Malformed::Truncated("attributes"))?;
    // The bitmap bounds the count by the packet's length before anything is reserved.
    let nulls = reader.bytes(count.div_ceil(8), "NULL bitmap")?;
    if reader.u8("new parameters flag")? != 1 {
        return Err(Malformed::Invalid("attributes come without their types"));
    }
    let mut types = Vec::with_capacity(count);
    for _ in 0..count {
        types.push(reader.u8("attribute type")?);
        reader.u8("attribute flags")?;
        reader.lenenc_bytes("attribute name")?;
    }
    for (at, kind) in types.into_iter().enumerate() {
        let is_null = nulls.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1);
        if !is_null {
            skip_value(reader, kind)?;
        }
    }
    Ok(())
}

/// Moves past one value of the binary protocol.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html>
fn skip_value(reader: &mut Reader<'_>, kind: u8) -> Result<(), Malformed> {
    let kind = ColumnType::try_from(kind).map_err(|_| Malformed::Invalid("unknown attribute type"))?;
    let fixed = match kind {
        ColumnType::MYSQL_TYPE_NULL => 0,
        ColumnType::MYSQL_TYPE_TINY => 1,
        ColumnType::MYSQL_TYPE_SHORT | ColumnType::MYSQL_TYPE_YEAR => 2,
        ColumnType::MYSQL_TYPE_LONG | ColumnType::MYSQL_TYPE_INT24 | ColumnType::MYSQL_TYPE_FLOAT => 4,
        ColumnType::MYSQL_TYPE_LONGLONG | ColumnType::MYSQL_TYPE_DOUBLE => 8,
        ColumnType::MYSQL_TYPE_DATE
        | ColumnType::MYSQL_TYPE_DATETIME
        | ColumnType::MYSQL_TYPE_TIMESTAMP
        | ColumnType::MYSQL_TYPE_TIME => reader.u8("length of a time")?.into(),
        _ => {
            reader.lenenc_bytes("attribute value")?;
            0
        }
    };
    reader.bytes(fixed, "attribute value").map(|_| ())
}
