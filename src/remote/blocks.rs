//! What was fetched of an object, and what is fetched ahead.
//!
//! Ranges that are said to be read soon are fetched in blocks of a few MiB, several at the same
//! time; anything else as it is asked for. Every byte that lies in a block is fetched once, until
//! the block is given up for younger ones.

use std::{
    io,
    ops::Range,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

/// Bytes of a block of what is expected.
const BLOCK: u64 = 4 << 20;
/// Blocks that are fetched ahead of the one that is read.
const AHEAD: usize = 6;
/// Blocks that are kept, most of them read already.
const KEPT: usize = 16;

/// Something that can be fetched by ranges.
pub trait Fetch: Send + Sync + 'static {
    /// The bytes of a range, all of them.
    fn fetch(&self, range: Range<u64>) -> io::Result<Vec<u8>>;
}

/// The blocks of one object.
pub struct Blocks<F>(Arc<Inner<F>>);

struct Inner<F> {
    from: F,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    blocks: Vec<Block>,
    expected: Vec<Range<u64>>,
    /// Counts reads.
    now: u64,
}

struct Block {
    range: Range<u64>,
    /// `None` while it is fetched.
    bytes: Option<Arc<Vec<u8>>>,
    /// When it was last read; blocks of the beginning and the end stay.
    read: u64,
}

impl<F: Fetch> Blocks<F> {
    pub fn new(from: F) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Blocks(Arc::new(Inner { from, state, changed }))
    }

    /// Fetches bytes past everything that is kept.
    pub fn fetch(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.0.from.fetch(range)
    }

    /// Keeps bytes that were fetched already for good.
    pub fn keep(&self, at: u64, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            let range = at..at + bytes.len() as u64;
            let bytes = Some(Arc::new(bytes));
            self.0.state().blocks.push(Block { range, bytes, read: u64::MAX });
        }
    }

    /// Notes that a range will be read, from its beginning on.
    pub fn expect(&self, range: Range<u64>) {
        if !range.is_empty() {
            self.0.state().expected.push(range);
        }
    }

    /// Notes that a range was read.
    pub fn forget(&self, range: &Range<u64>) {
        let mut state = self.0.state();
        if let Some(at) = state.expected.iter().position(|r| r == range) {
            state.expected.swap_remove(at);
        }
    }

    /// Fills `buf` with the bytes from `offset` on, which exist.
    pub fn read(&self, mut offset: u64, mut buf: &mut [u8]) -> io::Result<()> {
        while !buf.is_empty() {
            let (at, bytes) = self.block(offset, offset + buf.len() as u64)?;
            let bytes = &bytes[(offset - at) as usize..];
            let (head, tail) = buf.split_at_mut(bytes.len().min(buf.len()));
            head.copy_from_slice(&bytes[..head.len()]);
            offset += head.len() as u64;
            buf = tail;
        }
        Ok(())
    }

    /// The block that has the byte at `offset`, of which bytes up to `end` are asked for.
    fn block(&self, offset: u64, end: u64) -> io::Result<(u64, Arc<Vec<u8>>)> {
        let inner = &self.0;
        let mut state = inner.state();
        state.now += 1;
        let now = state.now;
        let range = loop {
            let found = state.blocks.iter_mut().find(|b| b.range.contains(&offset));
            let Some(block) = found else { break state.missing(offset, end) };
            let Some(bytes) = block.bytes.clone() else {
                state = inner.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            block.read = block.read.max(now);
            let start = block.range.start;
            let ahead = state.ahead(offset);
            drop(state);
            self.fetch_ahead(ahead);
            return Ok((start, bytes));
        };
        state.begin(range.clone());
        let ahead = state.ahead(offset);
        drop(state);
        self.fetch_ahead(ahead);
        Ok((range.start, inner.finish(range)?))
    }

    fn fetch_ahead(&self, ranges: Vec<Range<u64>>) {
        for range in ranges {
            let inner = self.0.clone();
            let fetched = range.clone();
            let started = thread::Builder::new().spawn(move || {
                // Whoever needs it asks again, and learns why it failed.
                let _ = inner.finish(fetched);
            });
            if started.is_err() {
                self.0.state().blocks.retain(|b| b.range != range);
                self.0.changed.notify_all();
            }
        }
    }
}

impl<F: Fetch> Inner<F> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches a block that was begun.
    fn finish(&self, range: Range<u64>) -> io::Result<Arc<Vec<u8>>> {
        let wanted = range.end - range.start;
        let fetched =
            self.from.fetch(range.clone()).and_then(|bytes| match bytes.len() as u64 == wanted {
                true => Ok(Arc::new(bytes)),
                false => Err(io::ErrorKind::UnexpectedEof.into()),
            });
        let mut state = self.state();
        match &fetched {
            Ok(bytes) => {
                let now = state.now;
                let block = state.blocks.iter_mut().find(|b| b.range == range);
                if let Some(block) = block {
                    (block.bytes, block.read) = (Some(bytes.clone()), now);
                }
            }
            Err(_) => state.blocks.retain(|b| b.range != range),
        }
        self.changed.notify_all();
        fetched
    }
}

impl State {
    /// What is to be fetched for bytes that are in no block.
    fn missing(&self, offset: u64, end: u64) -> Range<u64> {
        let expected = self.expected.iter().find(|r| r.contains(&offset));
        let range = match expected {
            Some(r) => {
                let start = r.start + (offset - r.start) / BLOCK * BLOCK;
                start..(start + BLOCK).min(r.end)
            }
            None => offset..end,
        };
        self.between(range, offset)
    }

    /// The part of a range around `offset` that is in no block.
    fn between(&self, range: Range<u64>, offset: u64) -> Range<u64> {
        let blocks = self.blocks.iter().map(|b| &b.range);
        blocks.fold(range, |range, b| {
            let start = if b.end <= offset { range.start.max(b.end) } else { range.start };
            let end = if b.start > offset { range.end.min(b.start) } else { range.end };
            start..end
        })
    }

    /// Begins what comes behind `offset` in an expected range.
    fn ahead(&mut self, offset: u64) -> Vec<Range<u64>> {
        let Some(r) = self.expected.iter().find(|r| r.contains(&offset)).cloned() else {
            return Vec::new();
        };
        let first = r.start + (offset - r.start) / BLOCK * BLOCK + BLOCK;
        let mut begun = Vec::new();
        for start in (0..AHEAD as u64).map(|i| first + i * BLOCK).take_while(|&s| s < r.end) {
            if self.blocks.iter().any(|b| b.range.contains(&start)) {
                continue;
            }
            let range = self.between(start..(start + BLOCK).min(r.end), start);
            self.begin(range.clone());
            begun.push(range);
        }
        begun
    }

    /// Adds a block that is being fetched, in the place of the one that was not read for longest.
    fn begin(&mut self, range: Range<u64>) {
        let fetched = |b: &Block| b.bytes.is_some() && b.read != u64::MAX;
        while self.blocks.iter().filter(|b| fetched(b)).count() >= KEPT {
            let blocks = self.blocks.iter().enumerate().filter(|(_, b)| fetched(b));
            let Some((oldest, _)) = blocks.min_by_key(|(_, b)| b.read) else { break };
            self.blocks.swap_remove(oldest);
        }
        self.blocks.push(Block { range, bytes: None, read: self.now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Counts what is fetched of bytes that tell where they are.
    struct Counted {
        len: u64,
        fetched: Arc<AtomicU64>,
    }

    fn bytes(range: Range<u64>) -> Vec<u8> {
        range.map(|i| (i ^ (i >> 9) ^ (i >> 17)) as u8).collect()
    }

    impl Fetch for Counted {
        fn fetch(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
            assert!(range.start < range.end && range.end <= self.len, "{range:?}");
            self.fetched.fetch_add(range.end - range.start, Ordering::Relaxed);
            Ok(bytes(range))
        }
    }

    fn blocks(len: u64) -> (Blocks<Counted>, Arc<AtomicU64>) {
        let fetched = Arc::new(AtomicU64::new(0));
        (Blocks::new(Counted { len, fetched: fetched.clone() }), fetched)
    }

    #[test]
    fn reads_are_right_wherever_blocks_begin_and_end() {
        let len = 150 << 20;
        let (blocks, _) = blocks(len);
        blocks.keep(0, bytes(0..70_000));
        blocks.keep(len - 100_000, bytes(len - 100_000..len));
        let mut seed = 1u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for i in 0..200 {
            let start = next(len - 1);
            let end = (start + 1 + next(6 << 20)).min(len);
            let expected = start.saturating_sub(next(9 << 20))..(end + next(9 << 20)).min(len);
            if i % 3 == 0 {
                blocks.expect(expected.clone());
            }
            let mut out = vec![0; (end - start) as usize];
            blocks.read(start, &mut out).unwrap();
            assert!(out == bytes(start..end), "{start}..{end}");
            blocks.forget(&expected);
        }
    }

    #[test]
    fn what_is_expected_is_fetched_once_by_several_readers_and_the_rest_as_asked() {
        let len = 60 << 20;
        let (blocks, fetched) = blocks(len);
        blocks.expect(1000..len);
        thread::scope(|scope| {
            for reader in 0..4 {
                let blocks = &blocks;
                scope.spawn(move || {
                    for at in (1000 + reader * 300_000..len - 300_000).step_by(1_200_000) {
                        let mut out = vec![0; 300_000];
                        blocks.read(at, &mut out).unwrap();
                    }
                });
            }
        });
        blocks.forget(&(1000..len));
        assert!(fetched.load(Ordering::Relaxed) <= len, "blocks were fetched twice");
        let before = fetched.load(Ordering::Relaxed);
        blocks.read(0, &mut [0; 1000]).unwrap();
        assert_eq!(fetched.load(Ordering::Relaxed), before + 1000);
    }
}
