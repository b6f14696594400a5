//! The four bytes before each packet, and walking over packets whose contents do not matter.

/// The longest payload of one packet; a payload of exactly this length is continued in the next packet.
pub const MAX_PACKET: usize = 0xFF_FFFF;

/// A packet header: `int<3>` length, `int<1>` sequence number.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html>
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Payload bytes that follow.
    pub len: usize,
    /// Sequence number.
    pub seq: u8,
}

impl Header {
    /// Bytes of a header.
    pub const LEN: usize = 4;

    /// Reads the header at the front of `buf`; `None` when fewer than four bytes are there.
    pub fn peek(buf: &[u8]) -> Option<Self> {
        let &[a, b, c, seq] = buf.first_chunk()?;
        Some(Self { len: usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16, seq })
    }

    /// Whether the payload goes on in the next packet.
    pub const fn is_continued(self) -> bool {
        self.len == MAX_PACKET
    }
}

/// Walks over the rest of a logical packet that may span several packets, so that it can be forwarded in
/// pieces of any size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Walk {
    /// Payload bytes of the current packet still to come.
    left: usize,
    /// Whether another packet continues this one.
    continued: bool,
    /// The number of the packet that is due, when another one is.
    next_seq: u8,
}

impl Walk {
    /// Begins just behind `header`.
    pub const fn new(header: Header) -> Self {
        Self { left: header.len, continued: header.is_continued(), next_seq: header.seq.wrapping_add(1) }
    }

    /// Whether the logical packet is at its end.
    pub const fn is_done(&self) -> bool {
        self.left == 0 && !self.continued
    }

    /// The number of the packet that follows.
    pub const fn next_seq(&self) -> u8 {
        self.next_seq
    }

    /// Moves past `len` payload bytes of the current packet.
    pub fn skip(&mut self, len: usize) {
        self.left = self.left.saturating_sub(len);
    }

    /// How many bytes at the front of `buf` belong to the packet; the state moves past them. Less than
    /// `buf.len()` either at the end of the packet or in the middle of a header.
    ///
    /// # Errors
    /// [`super::Malformed::OutOfOrder`] when a continuation has the wrong number.
    pub fn advance(&mut self, buf: &[u8]) -> Result<usize, super::Malformed> {
        let mut walked = 0;
        loop {
            let rest = buf.get(walked..).unwrap_or_default();
            if self.left > 0 {
                let step = self.left.min(rest.len());
                self.left -= step;
                walked += step;
                if self.left > 0 {
                    return Ok(walked);
                }
            } else if self.continued {
                let Some(header) = Header::peek(rest) else { return Ok(walked) };
                if header.seq != self.next_seq {
                    return Err(super::Malformed::OutOfOrder {
                        expected: self.next_seq,
                        received: header.seq,
                    });
                }
                walked += Header::LEN;
                *self = Self::new(header);
            } else {
                return Ok(walked);
            }
        }
    }
}
