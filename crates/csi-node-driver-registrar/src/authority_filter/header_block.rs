//! One header block (RFC 7541), decoded and written anew with `localhost` as `:authority`.

use loona_hpack::Decoder;
use loona_hpack::decoder::DecoderError;

const AUTHORITY: &[u8] = b":authority";
const LOCALHOST: &[u8] = b"localhost";
/// The size of the client's dynamic table, which the server does not change from the protocol's initial value.
const TABLE: usize = 4096;
/// What a block may become when it is written out: a few bytes can refer to a long entry of the table many times.
const LARGEST_WRITTEN: usize = 64 * 1024;
/// A literal that enters no table, with its name as text.
const LITERAL: u8 = 0;

/// Why a block cannot be rewritten.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("a header block cannot be decoded: {0}")]
    Hpack(DecoderError),
    #[error("a header block takes more than 65536 bytes when it is written out")]
    TooLarge,
}

/// The client's header blocks, in the order they come: each may refer to those before it.
pub(super) struct HeaderBlocks {
    decoder: Decoder<'static>,
}

impl HeaderBlocks {
    pub(super) fn new() -> Self {
        let mut decoder = Decoder::new();
        decoder.set_max_allowed_table_size(TABLE);
        Self { decoder }
    }

    /// The same headers with `:authority: localhost`, which is added where a request has none. Trailers, which have no pseudo-headers,
    /// stay what they are.
    pub(super) fn rewrite(&mut self, block: &[u8]) -> Result<Vec<u8>, Unreadable> {
        let mut written = Written::default();
        let decoded = self.decoder.decode_with_cb(block, |name, value| written.add(&name, &value));
        decoded.map_err(Unreadable::Hpack)?;
        written.finish()
    }
}

#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
    is_request: bool,
    has_authority: bool,
    too_large: bool,
}

impl Written {
    fn add(&mut self, name: &[u8], value: &[u8]) {
        self.is_request |= name.starts_with(b":");
        self.has_authority |= name == AUTHORITY;
        let value = if name == AUTHORITY { LOCALHOST } else { value };
        // The decoder cannot be stopped, but what it still says need not be kept.
        self.too_large |= self.bytes.len() + name.len() + value.len() > LARGEST_WRITTEN;
        if !self.too_large {
            literal(&mut self.bytes, name, value);
        }
    }

    fn finish(self) -> Result<Vec<u8>, Unreadable> {
        if self.too_large {
            return Err(Unreadable::TooLarge);
        }
        if self.has_authority || !self.is_request {
            return Ok(self.bytes);
        }
        // First of all: pseudo-headers stand before others.
        let mut bytes = Vec::with_capacity(self.bytes.len() + AUTHORITY.len() + LOCALHOST.len() + 3);
        literal(&mut bytes, AUTHORITY, LOCALHOST);
        bytes.extend_from_slice(&self.bytes);
        Ok(bytes)
    }
}

fn literal(bytes: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    bytes.push(LITERAL);
    for text in [name, value] {
        length(bytes, text.len());
        bytes.extend_from_slice(text);
    }
}

/// The length of a string without Huffman code: an integer with a prefix of seven bits (RFC 7541, 5.1).
fn length(bytes: &mut Vec<u8>, length: usize) {
    const PREFIX: u8 = 0x7f;
    let Some(mut rest) = length.checked_sub(usize::from(PREFIX)) else {
        bytes.push(u8::try_from(length).unwrap_or(PREFIX));
        return;
    };
    bytes.push(PREFIX);
    loop {
        let seven = u8::try_from(rest & 0x7f).unwrap_or(PREFIX);
        rest >>= 7;
        if rest == 0 {
            bytes.push(seven);
            return;
        }
        bytes.push(seven | 0x80);
    }
}
