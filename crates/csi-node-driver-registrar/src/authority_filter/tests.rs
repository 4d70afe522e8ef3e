//! The filter on bytes that real clients send, and on those nobody should.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use loona_hpack::{Decoder, Encoder};
use tokio::io::AsyncReadExt as _;

use super::frames::{Malformed, Rewriter};
use super::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

type Headers = Vec<(String, String)>;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn with_preface(frames: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut bytes = PREFACE.to_vec();
    bytes.extend(frames.into_iter().flatten());
    bytes
}

fn request(authority: Option<&str>) -> Vec<(&[u8], &[u8])> {
    let mut headers: Vec<(&[u8], &[u8])> =
        vec![(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/x/GetInfo")];
    headers.extend(authority.map(|authority| (&b":authority"[..], authority.as_bytes())));
    headers.extend([(&b"content-type"[..], &b"application/grpc"[..]), (b"te", b"trailers")]);
    headers
}

fn block(headers: &[(&[u8], &[u8])]) -> Vec<u8> {
    Encoder::new().encode(headers.iter().copied())
}

fn rewrite(bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    rewrite_in_pieces(bytes, bytes.len().max(1))
}

fn rewrite_in_pieces(bytes: &[u8], size: usize) -> Result<Vec<u8>, Malformed> {
    let (mut rewriter, mut output) = (Rewriter::new(), Vec::new());
    for piece in bytes.chunks(size) {
        let mut rest = piece;
        while !rest.is_empty() {
            let taken = rewriter.step(rest, &mut output)?;
            assert!(taken > 0, "a step takes something");
            rest = &rest[taken..];
        }
    }
    Ok(output)
}

/// The frames after the preface: kind, flags, stream, payload.
fn frames(mut bytes: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    bytes = bytes.strip_prefix(PREFACE).expect("the preface passes");
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
        let stream = u32::from_be_bytes(bytes[5..9].try_into().unwrap());
        frames.push((bytes[3], bytes[4], stream, bytes[9..9 + length].to_vec()));
        bytes = &bytes[9 + length..];
    }
    frames
}

/// Every header block that comes out, as a server without memory reads it.
fn header_lists(bytes: &[u8]) -> Vec<Headers> {
    let mut lists = Vec::new();
    let mut block = Vec::new();
    for (kind, flags, _, payload) in frames(bytes) {
        if kind == HEADERS || kind == CONTINUATION {
            assert_eq!(flags & (PADDED | PRIORITY), 0, "padding and priority are gone");
            block.extend(payload);
            if flags & END_HEADERS != 0 {
                let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
                let list = Decoder::new().decode(&std::mem::take(&mut block)).unwrap();
                lists.push(list.into_iter().map(|(name, value)| (text(name), text(value))).collect());
            }
        }
    }
    lists
}

fn authorities(headers: &Headers) -> Vec<&str> {
    headers.iter().filter(|(name, _)| name == ":authority").map(|(_, value)| value.as_str()).collect()
}

#[test]
fn f9_whatever_the_authority_was_it_becomes_localhost() {
    let table = [
        Some("%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2Fx-reg.sock"),
        Some("/var/lib/kubelet/plugins_registry/x-reg.sock"),
        Some(""),
        None,
        Some("localhost"),
        Some("unix:@x"),
    ];
    for authority in table {
        let sent = request(authority);
        let output = rewrite(&with_preface([frame(HEADERS, END_HEADERS, 1, &block(&sent))])).unwrap();
        let lists = header_lists(&output);
        assert_eq!(lists.len(), 1);
        assert_eq!(authorities(&lists[0]), ["localhost"], "{authority:?}");
        let others = |list: &[(&[u8], &[u8])]| -> Headers {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            list.iter().filter(|(name, _)| *name != b":authority").map(|(n, v)| (text(n), text(v))).collect()
        };
        let found: Headers = lists[0].iter().filter(|(name, _)| name != ":authority").cloned().collect();
        assert_eq!(found, others(&sent), "all other headers are as they were");
        let regular = lists[0].iter().position(|(name, _)| !name.starts_with(':')).unwrap();
        assert!(lists[0][regular..].iter().all(|(name, _)| !name.starts_with(':')), "{:?}", lists[0]);
    }
}

#[test]
fn a_connection_comes_out_the_same_in_pieces_of_any_size() {
    let mut encoder = Encoder::new();
    let mut blocks = (0..3).map(|_| encoder.encode(request(Some("%2Fx")))).collect::<Vec<_>>().into_iter();
    let mut next = || blocks.next().unwrap();
    let (first, second, third) = (next(), next(), next());
    let bytes = with_preface([
        frame(SETTINGS, 0, 0, &[]),
        frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]),
        frame(HEADERS, END_HEADERS, 1, &first),
        frame(DATA, END_STREAM, 1, &[0, 0, 0, 0, 0]),
        frame(HEADERS, END_STREAM, 3, &second[..2]),
        frame(CONTINUATION, 0, 3, &[]),
        frame(CONTINUATION, END_HEADERS, 3, &second[2..]),
        frame(HEADERS, END_HEADERS | END_STREAM, 5, &third),
        frame(8, 0, 0, &[0, 1, 0, 0]),
    ]);
    let whole = rewrite(&bytes).unwrap();
    let kinds: Vec<_> = frames(&whole).iter().map(|(kind, flags, stream, _)| (*kind, *flags, *stream)).collect();
    let want = [(4, 0, 0), (4, 0, 0), (1, 4, 1), (0, 1, 1), (1, 5, 3), (1, 5, 5), (8, 0, 0)];
    assert_eq!(kinds, want);
    for list in header_lists(&whole) {
        assert_eq!(authorities(&list), ["localhost"]);
    }
    for size in 1..=bytes.len() {
        assert_eq!(rewrite_in_pieces(&bytes, size).unwrap(), whole, "pieces of {size}");
    }
    for split in 0..bytes.len() {
        let (mut rewriter, mut output) = (Rewriter::new(), Vec::new());
        for mut part in [&bytes[..split], &bytes[split..]] {
            while !part.is_empty() {
                part = &part[rewriter.step(part, &mut output).unwrap()..];
            }
        }
        assert_eq!(output, whole, "split at {split}");
    }
}

#[test]
fn padding_and_priority_are_taken_off() {
    let headers = block(&request(Some("%2Fx")));
    let padded = [&[3], &headers[..], &[0; 3]].concat();
    let prioritised = [&[0x80, 0, 0, 0, 16], &headers[..]].concat();
    let both = [&[1, 0, 0, 0, 0, 16], &headers[..], &[0]].concat();
    for (flags, payload) in [(PADDED, padded), (PRIORITY, prioritised), (PADDED | PRIORITY, both)] {
        let bytes = with_preface([frame(HEADERS, flags | END_HEADERS | END_STREAM, 1, &payload)]);
        let output = rewrite(&bytes).unwrap();
        assert_eq!(authorities(&header_lists(&output)[0]), ["localhost"]);
        assert_eq!(frames(&output)[0].1, END_HEADERS | END_STREAM);
    }
}

/// Literals that enter the client's table, as grpc-go writes them (RFC 7541, 6.2.1).
fn remembered(headers: &[(&[u8], &[u8])]) -> Vec<u8> {
    let text = |text: &[u8]| [&[u8::try_from(text.len()).unwrap()], text].concat();
    headers.iter().flat_map(|(name, value)| [vec![0x40], text(name), text(value)].concat()).collect()
}

#[test]
fn the_clients_table_is_followed() {
    let headers = request(Some("%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2Fx-reg.sock"));
    // The newest entry of the table is 62, the oldest of six 67.
    let references = [67_u8, 66, 65, 64, 63, 62].map(|index| 0x80 | index);
    let blocks = [
        remembered(&headers),
        references.to_vec(),
        // The table is emptied, made large again, and used (RFC 7541, 4.2).
        [&[0x20, 0x3f, 0xe1, 0x1f][..], &remembered(&headers)[..]].concat(),
        references.to_vec(),
    ];
    let bytes = with_preface(blocks.iter().zip([1, 3, 5, 7]).map(|(block, stream)| frame(HEADERS, 5, stream, block)));
    let lists = header_lists(&rewrite(&bytes).unwrap());
    assert_eq!(lists.len(), 4);
    for list in &lists {
        assert_eq!(list, &lists[0]);
        assert_eq!(authorities(list), ["localhost"]);
    }
    let emptied = with_preface([
        frame(HEADERS, 5, 1, &remembered(&headers)),
        frame(HEADERS, 5, 3, &[&[0x20][..], &references[..]].concat()),
    ]);
    assert!(matches!(rewrite(&emptied), Err(Malformed::Headers(_))), "what was forgotten cannot be referred to");
}

#[test]
fn trailers_get_no_authority() {
    let trailers = block(&[(b"grpc-status", b"0")]);
    let bytes = with_preface([
        frame(HEADERS, END_HEADERS, 1, &block(&request(None))),
        frame(HEADERS, END_HEADERS | END_STREAM, 1, &trailers),
    ]);
    let lists = header_lists(&rewrite(&bytes).unwrap());
    assert_eq!(lists[1], [("grpc-status".to_owned(), "0".to_owned())]);
}

#[test]
fn a_block_larger_than_a_frame_comes_out_in_several() {
    let long = "v".repeat(40_000);
    let mut headers = request(Some("%2Fx"));
    headers.push((b"long", long.as_bytes()));
    let block = block(&headers);
    let mut parts = block.chunks(16_384);
    let mut sent = vec![frame(HEADERS, END_STREAM, 1, parts.next().unwrap())];
    let rest: Vec<_> = parts.collect();
    for (number, part) in rest.iter().enumerate() {
        sent.push(frame(CONTINUATION, if number + 1 == rest.len() { END_HEADERS } else { 0 }, 1, part));
    }
    let output = rewrite(&with_preface(sent)).unwrap();
    let flags: Vec<_> = frames(&output).iter().map(|(kind, flags, _, _)| (*kind, *flags)).collect();
    assert_eq!(flags, [(HEADERS, END_STREAM), (CONTINUATION, 0), (CONTINUATION, END_HEADERS)]);
    assert_eq!(header_lists(&output)[0].last().unwrap().1, long);
}

#[test]
fn what_is_too_large_or_out_of_order_is_refused() {
    let headers = block(&request(Some("%2Fx")));
    let many = |n: usize| {
        let mut frames = vec![frame(HEADERS, 0, 1, &headers)];
        frames.extend((0..n).map(|_| frame(CONTINUATION, 0, 1, &[])));
        with_preface(frames)
    };
    let (full, too_long) = (vec![0; 16_384], vec![0; 16_385]);
    // One long entry in the table, then a thousand references to it.
    let mut bomb = vec![0x40, 1, b'x', 0x7f, 0xa1, 0x1e];
    bomb.extend(vec![b'v'; 4000]);
    bomb.extend(vec![0xbe; 1000]);
    let table: [(&str, Vec<u8>, Malformed); 13] = [
        ("HTTP/1", b"GET /healthz HTTP/1.1\r\n\r\n".to_vec(), Malformed::NotHttp2),
        ("almost", b"PRI * HTTP/2.0\r\n\r\nSX".to_vec(), Malformed::NotHttp2),
        ("frame", with_preface([frame(DATA, 0, 1, &too_long)]), Malformed::FrameTooLarge(16_385)),
        ("headers", with_preface([frame(HEADERS, 4, 1, &too_long)]), Malformed::FrameTooLarge(16_385)),
        ("padding", with_preface([frame(HEADERS, 4 | PADDED, 1, &[9, 0, 0])]), Malformed::Padding),
        ("no padding", with_preface([frame(HEADERS, 4 | PADDED, 1, &[])]), Malformed::Padding),
        ("priority", with_preface([frame(HEADERS, 4 | PRIORITY, 1, &[0, 0])]), Malformed::Padding),
        ("stray", with_preface([frame(CONTINUATION, 4, 1, &headers)]), Malformed::OutOfOrder(CONTINUATION, 1)),
        (
            "other stream",
            with_preface([frame(HEADERS, 0, 1, &headers), frame(CONTINUATION, 4, 3, &[])]),
            Malformed::OutOfOrder(CONTINUATION, 3),
        ),
        (
            "data inside",
            with_preface([frame(HEADERS, 0, 1, &headers), frame(DATA, 0, 1, &[])]),
            Malformed::OutOfOrder(DATA, 1),
        ),
        ("promise", with_preface([frame(5, 4, 1, &[0, 0, 0, 2])]), Malformed::OutOfOrder(5, 1)),
        ("empty frames for ever", many(65), Malformed::BlockTooLarge),
        (
            "block",
            with_preface(
                std::iter::once(frame(HEADERS, 0, 1, &full)).chain((0..4).map(|_| frame(CONTINUATION, 0, 1, &full))),
            ),
            Malformed::BlockTooLarge,
        ),
    ];
    for (name, bytes, want) in table {
        assert_eq!(rewrite(&bytes), Err(want), "{name}");
    }
    assert!(rewrite(&many(64)).is_ok());
    for (name, block) in [("bomb", &bomb[..]), ("bad index", &[0xff, 0xff, 0x7f]), ("cut string", &[0x00, 0x05, b'x'])]
    {
        let outcome = rewrite(&with_preface([frame(HEADERS, END_HEADERS, 1, block)]));
        assert!(matches!(outcome, Err(Malformed::Headers(_))), "{name}: {outcome:?}");
    }
    let grown = [&[0x3f, 0xe2, 0x1f][..], &headers[..]].concat();
    let outcome = rewrite(&with_preface([frame(HEADERS, END_HEADERS, 1, &grown)]));
    assert!(matches!(outcome, Err(Malformed::Headers(_))), "a table larger than allowed: {outcome:?}");
}

/// A small generator, so that failures can be repeated.
struct Garbage(u64);

impl Garbage {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit).unwrap()).unwrap()
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}

#[test]
fn garbage_is_passed_or_refused_and_never_more() {
    let mut garbage = Garbage(0x9e37_79b9_7f4a_7c15);
    let headers = block(&request(Some("%2Fvar%2Flib%2Fx")));
    for round in 0..3000 {
        let bytes = if round % 2 == 0 {
            let frames = (0..=garbage.below(6)).map(|_| {
                let payload: Vec<u8> = (0..garbage.below(80)).map(|_| garbage.byte()).collect();
                frame(garbage.byte() % 11, garbage.byte(), u32::from(garbage.byte() % 4), &payload)
            });
            with_preface(frames.collect::<Vec<_>>())
        } else {
            let mut bytes = with_preface([
                frame(SETTINGS, 0, 0, &[]),
                frame(HEADERS, END_HEADERS, 1, &headers),
                frame(DATA, END_STREAM, 1, &[0; 5]),
                frame(HEADERS, END_HEADERS | END_STREAM, 3, &headers),
            ]);
            for _ in 0..=garbage.below(4) {
                let at = garbage.below(bytes.len());
                bytes[at] = garbage.byte();
            }
            bytes
        };
        let whole = rewrite(&bytes);
        let pieces = rewrite_in_pieces(&bytes, garbage.below(7) + 1);
        match (&whole, &pieces) {
            (Ok(whole), Ok(pieces)) => assert_eq!(whole, pieces, "round {round}"),
            (Err(whole), Err(pieces)) => assert_eq!(whole, pieces, "round {round}"),
            _ => panic!("round {round}: {whole:?} and {pieces:?}"),
        }
        assert!(whole.is_err() || whole.unwrap().len() <= 128 * 1024);
    }
}

#[tokio::test]
async fn a_stream_ends_where_its_client_ends_and_breaks_where_it_makes_no_sense() {
    let bytes = with_preface([frame(HEADERS, END_HEADERS, 1, &block(&request(None)))]);
    let mut read = Vec::new();
    AuthorityFilter::new(&bytes[..]).read_to_end(&mut read).await.unwrap();
    assert_eq!(read, rewrite(&bytes).unwrap());
    let mut read = Vec::new();
    AuthorityFilter::new(&bytes[..40]).read_to_end(&mut read).await.unwrap();
    assert_eq!(read, bytes[..24], "half a frame is nothing");
    let error = AuthorityFilter::new(&b"GET / HTTP/1.1\r\n\r\n"[..]).read_to_end(&mut read).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert_eq!(error.to_string(), "the client does not speak HTTP/2");
    let empty: &[u8] = &[];
    assert_eq!(AuthorityFilter::new(empty).read(&mut [0; 8]).await.unwrap(), 0);
}
