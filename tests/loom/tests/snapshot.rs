//! The snapshot protocol under every interleaving (and memory order) that loom can make:
//! `cargo test -p loom-models`.

use loom::thread;
use loom_models::snapshot::{Generation, Reader, shared};

/// A snapshot that knows its number, and that only the thread that made it may free.
struct Owned {
    number: u64,
    owner: thread::ThreadId,
}

impl Owned {
    fn new(number: u64) -> Self {
        Self { number, owner: thread::current().id() }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        assert_eq!(thread::current().id(), self.owner, "a worker freed snapshot {}", self.number);
    }
}

/// A worker of two bursts: generations never go back, and the number fits the value.
fn work(mut reader: Reader<Owned>) {
    let first = reader.refresh().number;
    assert_eq!(reader.generation(), Generation(first));
    let second = reader.refresh().number;
    assert_eq!(reader.generation(), Generation(second));
    assert!(second >= first, "went back from {first} to {second}");
}

#[test]
fn one_worker_one_publish() {
    loom::model(|| {
        let (mut publisher, mut readers) = shared(Owned::new(0), 1);
        let reader = readers.pop().unwrap();
        let worker = thread::spawn(move || work(reader));
        assert_eq!(publisher.publish(Owned::new(1)), Ok(Generation(1)));
        worker.join().unwrap();
        assert_eq!(publisher.reclaim(), 0);
    });
}

/// The worker may adopt the first while the second is being published.
#[test]
fn one_worker_two_publishes() {
    loom::model(|| {
        let (mut publisher, mut readers) = shared(Owned::new(0), 1);
        let reader = readers.pop().unwrap();
        let worker = thread::spawn(move || work(reader));
        for number in 1..=2 {
            assert_eq!(publisher.publish(Owned::new(number)), Ok(Generation(number)));
        }
        worker.join().unwrap();
        assert_eq!(publisher.reclaim(), 0);
    });
}

#[test]
fn two_workers_two_publishes() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (mut publisher, readers) = shared(Owned::new(0), 2);
        let workers: Vec<_> =
            readers.into_iter().map(|reader| thread::spawn(move || work(reader))).collect();
        for number in 1..=2 {
            assert_eq!(publisher.publish(Owned::new(number)), Ok(Generation(number)));
        }
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(publisher.reclaim(), 0);
    });
}
