//! The frames of an HTTP/2 client (RFC 9113, 4.1 and 6), as far as header blocks must be found among them.

use super::header_block::{HeaderBlocks, Unreadable};

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD: usize = 9;
/// The largest payload a client may send: the server does not raise the initial limit of the protocol.
const LARGEST_PAYLOAD: usize = 16_384;
/// The largest header block, over all its frames.
const LARGEST_BLOCK: usize = 64 * 1024;
/// The frames a header block may come in: empty ones cost the sender next to nothing.
const MOST_CONTINUATIONS: usize = 64;

const HEADERS: u8 = 0x1;
const PUSH_PROMISE: u8 = 0x5;
const CONTINUATION: u8 = 0x9;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// What makes a connection useless. Where headers cannot be read, all that follow cannot either.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("the client does not speak HTTP/2")]
    NotHttp2,
    #[error("the client sent a frame of {0} bytes, more than 16384")]
    FrameTooLarge(usize),
    #[error("the padding or priority of a frame is longer than the frame")]
    Padding,
    #[error("a frame of type {0} and stream {1} stands inside a header block or outside of one where it may not")]
    OutOfOrder(u8, u32),
    #[error("a header block is larger than 65536 bytes or comes in more than 64 frames")]
    BlockTooLarge,
    #[error(transparent)]
    Headers(#[from] Unreadable),
}

#[derive(Debug, Clone, Copy)]
struct Head {
    length: usize,
    kind: u8,
    flags: u8,
    /// Without the reserved bit.
    stream: u32,
}

impl Head {
    fn read([high, middle, low, kind, flags, stream @ ..]: [u8; HEAD]) -> Self {
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        Self { length, kind, flags, stream: u32::from_be_bytes(stream) & 0x7fff_ffff }
    }

    fn write(self, output: &mut Vec<u8>) {
        let [_, length @ ..] = u32::try_from(self.length).unwrap_or(u32::MAX).to_be_bytes();
        output.extend_from_slice(&length);
        output.extend_from_slice(&[self.kind, self.flags]);
        output.extend_from_slice(&self.stream.to_be_bytes());
    }

    fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// A header block under way.
#[derive(Debug)]
struct Block {
    stream: u32,
    end_stream: bool,
    bytes: Vec<u8>,
    continuations: usize,
}

#[derive(Debug)]
enum State {
    /// So many bytes of the preface have passed.
    Preface(usize),
    /// The head of a frame, as far as it has come.
    Head([u8; HEAD], usize),
    /// The rest of a payload that passes as it is.
    Pass(usize),
    /// The payload of HEADERS or CONTINUATION.
    Collect(Head, Vec<u8>),
}

/// Rewrites a client's bytes, in pieces of any size.
pub(super) struct Rewriter {
    state: State,
    /// Between HEADERS and the last CONTINUATION.
    block: Option<Block>,
    headers: HeaderBlocks,
}

impl Rewriter {
    pub(super) fn new() -> Self {
        Self { state: State::Preface(0), block: None, headers: HeaderBlocks::new() }
    }

    /// Takes a part of `input`, which must not be empty, and appends what it becomes to `output`: at most one header block or what
    /// it took itself. Gives the number of bytes taken, which is never zero.
    pub(super) fn step(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<usize, Malformed> {
        match &mut self.state {
            State::Preface(passed) => {
                let expected = PREFACE.get(*passed..).unwrap_or_default();
                let part = input.get(..expected.len()).unwrap_or(input);
                if !expected.starts_with(part) {
                    return Err(Malformed::NotHttp2);
                }
                output.extend_from_slice(part);
                let passed = *passed + part.len();
                self.state = if passed == PREFACE.len() { State::Head([0; HEAD], 0) } else { State::Preface(passed) };
                Ok(part.len())
            }
            State::Head(bytes, filled) => {
                let missing = bytes.get_mut(*filled..).unwrap_or_default();
                let part = input.get(..missing.len()).unwrap_or(input);
                for (to, from) in missing.iter_mut().zip(part) {
                    *to = *from;
                }
                *filled += part.len();
                if *filled == HEAD {
                    let head = Head::read(*bytes);
                    self.begin(head, output)?;
                }
                Ok(part.len())
            }
            State::Pass(left) => {
                let part = input.get(..*left).unwrap_or(input);
                output.extend_from_slice(part);
                *left -= part.len();
                if *left == 0 {
                    self.state = State::Head([0; HEAD], 0);
                }
                Ok(part.len())
            }
            State::Collect(head, payload) => {
                let part = input.get(..head.length - payload.len()).unwrap_or(input);
                payload.extend_from_slice(part);
                if payload.len() == head.length {
                    let (head, payload) = (*head, std::mem::take(payload));
                    self.collected(head, &payload, output)?;
                }
                Ok(part.len())
            }
        }
    }

    /// Decides what happens to the payload after a head.
    fn begin(&mut self, head: Head, output: &mut Vec<u8>) -> Result<(), Malformed> {
        if head.length > LARGEST_PAYLOAD {
            return Err(Malformed::FrameTooLarge(head.length));
        }
        let in_order = match (head.kind, &self.block) {
            (CONTINUATION, block) => block.as_ref().is_some_and(|block| block.stream == head.stream),
            (PUSH_PROMISE, _) => false,
            (_, block) => block.is_none(),
        };
        if !in_order {
            return Err(Malformed::OutOfOrder(head.kind, head.stream));
        }
        if matches!(head.kind, HEADERS | CONTINUATION) {
            if head.length == 0 {
                return self.collected(head, &[], output);
            }
            self.state = State::Collect(head, Vec::new());
            return Ok(());
        }
        head.write(output);
        self.state = if head.length == 0 { State::Head([0; HEAD], 0) } else { State::Pass(head.length) };
        Ok(())
    }

    /// Adds a frame to the header block, which is rewritten when it is complete.
    fn collected(&mut self, head: Head, payload: &[u8], output: &mut Vec<u8>) -> Result<(), Malformed> {
        self.state = State::Head([0; HEAD], 0);
        let mut block = match self.block.take() {
            None => {
                let bytes = fragment(head, payload)?.to_vec();
                Block { stream: head.stream, end_stream: head.has(END_STREAM), bytes, continuations: 0 }
            }
            Some(mut block) => {
                block.continuations += 1;
                if block.bytes.len() + payload.len() > LARGEST_BLOCK || block.continuations > MOST_CONTINUATIONS {
                    return Err(Malformed::BlockTooLarge);
                }
                block.bytes.extend_from_slice(payload);
                block
            }
        };
        if !head.has(END_HEADERS) {
            self.block = Some(block);
            return Ok(());
        }
        block.bytes = self.headers.rewrite(&block.bytes)?;
        block.write(output);
        Ok(())
    }
}

impl Block {
    /// HEADERS, and CONTINUATION for what does not fit. Padding and priority are gone: they mean nothing any more.
    fn write(&self, output: &mut Vec<u8>) {
        let mut rest = &self.bytes[..];
        let mut kind = HEADERS;
        loop {
            let (part, after) = rest.split_at_checked(LARGEST_PAYLOAD).unwrap_or((rest, &[]));
            let end_stream = if kind == HEADERS && self.end_stream { END_STREAM } else { 0 };
            let end_headers = if after.is_empty() { END_HEADERS } else { 0 };
            Head { length: part.len(), kind, flags: end_stream | end_headers, stream: self.stream }.write(output);
            output.extend_from_slice(part);
            if after.is_empty() {
                return;
            }
            rest = after;
            kind = CONTINUATION;
        }
    }
}

/// The header block fragment in the payload of HEADERS: between pad length and priority, and the padding.
fn fragment(head: Head, payload: &[u8]) -> Result<&[u8], Malformed> {
    let (padding, rest) = if head.has(PADDED) {
        let (padding, rest) = payload.split_first().ok_or(Malformed::Padding)?;
        (usize::from(*padding), rest)
    } else {
        (0, payload)
    };
    let skipped = if head.has(PRIORITY) { 5 } else { 0 };
    let end = rest.len().checked_sub(padding).ok_or(Malformed::Padding)?;
    rest.get(skipped..end).ok_or(Malformed::Padding)
}
