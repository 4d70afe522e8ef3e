#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use super::*;

/// Notes what is written to it, and takes so many bytes until it is given more room.
struct Stream {
    writes: Vec<Vec<u8>>,
    flushed: usize,
    room: usize,
    shut_down: bool,
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if self.room == 0 {
            return Poll::Pending;
        }
        let taken = data.get(..self.room).unwrap_or(data);
        self.room -= taken.len();
        self.writes.push(taken.to_vec());
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.flushed = self.writes.concat().len();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shut_down = true;
        Poll::Ready(Ok(()))
    }
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A connection, and the task that writes to it.
struct Scene {
    connection: Gathered<Stream>,
    wakes: Arc<Wakes>,
}

impl Scene {
    fn with_room_for(room: usize) -> Self {
        let stream = Stream { writes: Vec::new(), flushed: 0, room, shut_down: false };
        Self { connection: Gathered::new(stream), wakes: Arc::default() }
    }

    fn poll<T>(&mut self, poll: impl FnOnce(Pin<&mut Gathered<Stream>>, &mut Context<'_>) -> T) -> T {
        let waker = Waker::from(self.wakes.clone());
        poll(Pin::new(&mut self.connection), &mut Context::from_waker(&waker))
    }

    fn write(&mut self, data: &[u8]) -> Poll<usize> {
        self.poll(|connection, context| connection.poll_write(context, data)).map(Result::unwrap)
    }

    fn flush(&mut self) -> Poll<()> {
        self.poll(Gathered::poll_flush).map(Result::unwrap)
    }

    fn writes(&self) -> Vec<&[u8]> {
        self.connection.stream.writes.iter().map(Vec::as_slice).collect()
    }
}

#[test]
fn what_is_written_until_the_others_have_run_leaves_at_once() {
    let mut scene = Scene::with_room_for(100);
    assert_eq!(scene.write(b"head "), Poll::Ready(5));
    assert_eq!(scene.flush(), Poll::Pending);
    assert_eq!(scene.wakes.0.load(Ordering::SeqCst), 1);
    assert!(scene.writes().is_empty());
    assert_eq!(scene.write(b"body end"), Poll::Ready(8));
    assert_eq!(scene.flush(), Poll::Ready(()));
    assert_eq!(scene.writes(), [b"head body end"]);
    assert_eq!(scene.connection.stream.flushed, 13);
    assert_eq!(scene.wakes.0.load(Ordering::SeqCst), 1);
}

#[test]
fn each_flush_lets_the_others_run_and_one_without_anything_to_write_does_not() {
    let mut scene = Scene::with_room_for(100);
    assert_eq!(scene.flush(), Poll::Ready(()));
    for written in [b"one", b"two"] {
        assert_eq!(scene.write(written), Poll::Ready(3));
        assert_eq!(scene.flush(), Poll::Pending);
        assert_eq!(scene.flush(), Poll::Ready(()));
    }
    assert_eq!(scene.writes(), [b"one", b"two"]);
}

#[test]
fn a_stream_that_takes_little_at_a_time_gets_everything_in_order() {
    let mut scene = Scene::with_room_for(2);
    assert_eq!(scene.write(b"abcde"), Poll::Ready(5));
    assert_eq!(scene.flush(), Poll::Pending);
    assert_eq!(scene.flush(), Poll::Pending);
    assert_eq!(scene.writes(), [b"ab"]);
    assert_eq!(scene.write(b"f"), Poll::Ready(1));
    scene.connection.stream.room = 100;
    assert_eq!(scene.flush(), Poll::Ready(()));
    assert_eq!(scene.writes().concat(), b"abcdef");
}

#[test]
fn no_more_is_gathered_than_a_record_holds() {
    let mut scene = Scene::with_room_for(0);
    assert_eq!(scene.write(&[1; FULL]), Poll::Ready(FULL));
    assert_eq!(scene.write(b"more"), Poll::Pending);
    scene.connection.stream.room = FULL;
    assert_eq!(scene.write(b"more"), Poll::Ready(4));
    assert_eq!(scene.writes(), [[1; FULL]]);
}

#[test]
fn nothing_is_left_behind_at_the_end() {
    let mut scene = Scene::with_room_for(0);
    assert_eq!(scene.write(b"the end"), Poll::Ready(7));
    let shutdown = |scene: &mut Scene| scene.poll(Gathered::poll_shutdown).map(Result::unwrap);
    assert_eq!(shutdown(&mut scene), Poll::Pending);
    assert!(!scene.connection.stream.shut_down);
    scene.connection.stream.room = 100;
    assert_eq!(shutdown(&mut scene), Poll::Ready(()));
    assert_eq!(scene.writes(), [b"the end"]);
    assert!(scene.connection.stream.shut_down);
}
