//! Under shuttle's scheduler: what is lent does not change, in whatever order cores come.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p volume --lib ram::orders` runs it; elsewhere it is not compiled.

use std::sync::Arc;

use buf::{Buf, BufList, SharedBuf};
use shuttle::thread;

use super::lender::Lender;
use super::page::PAGE;
use super::pages::{Pages, WholePages};

/// Where all requests begin: in the middle of the first page, so that they have a part in the second.
const START: u64 = (PAGE / 2) as u64;
const ORDERS: usize = 3000;

/// What a request writes: `number`, everywhere.
fn data(number: u8) -> BufList {
    SharedBuf::from(vec![number; PAGE]).into()
}

/// What a queue of its own answers to a read of the same.
fn lend(pages: &Pages) -> BufList {
    pages.lend(START, Buf::zeroed(PAGE), &Lender::new())
}

/// The one number that each piece consists of. Whole pieces are copied and lent in one go, so a mixture is a fault.
fn numbers(list: &BufList) -> Vec<u8> {
    let number = |piece: &SharedBuf| {
        assert!(piece.iter().all(|byte| *byte == piece[0]), "a piece is a mixture");
        piece[0]
    };
    list.pieces().iter().map(number).collect()
}

/// Two cores write two pages over and over, while two read them and hold what they got.
fn readers_and_writers() {
    let pages = Arc::new(Pages::new(2 * PAGE as u64).unwrap());
    let core = |work: fn(&Pages, u8), number| {
        let pages = Arc::clone(&pages);
        thread::spawn(move || work(&pages, number))
    };
    let write = |pages: &Pages, number| {
        pages.write(START, &data(number));
        pages.write(START, &data(number + 1));
    };
    let read = |pages: &Pages, _| {
        let first = lend(pages);
        let seen = numbers(&first);
        let second = lend(pages);
        let seen_second = numbers(&second);
        assert_eq!(numbers(&first), seen);
        drop(first);
        thread::yield_now();
        assert_eq!(numbers(&second), seen_second);
    };
    let zero = |pages: &Pages, _| {
        pages.zero(0..PAGE as u64, WholePages::Release, usize::MAX);
    };
    let cores = [core(write, 1), core(write, 3), core(read, 0), core(read, 0), core(zero, 0)];
    for core in cores {
        core.join().unwrap();
    }
    // Nobody holds anything now, so nothing has to be copied.
    let copied = pages.copied();
    pages.write(START, &data(9));
    assert_eq!(pages.copied(), copied);
    assert_eq!(numbers(&lend(&pages)), [9, 9]);
}

/// The numbers at the ends of both pages, read at once by a queue of its own.
fn ends(pages: &Pages) -> Vec<u8> {
    numbers(&lend(pages))
}

/// Two cores compare and write two pages, in turn by each other's value, while others read, write and compare all of them.
fn compare_and_writes_over_pages() {
    let pages = Arc::new(Pages::new(2 * PAGE as u64).unwrap());
    pages.write(START, &data(1));
    let count = Arc::new(shuttle::sync::atomic::AtomicUsize::new(0));
    let compares = [(1, 2), (2, 3), (1, 4)].map(|(old, new)| {
        let (pages, count) = (Arc::clone(&pages), Arc::clone(&count));
        thread::spawn(move || {
            if pages.compare_and_write(START, &data(old), &data(new)).is_ok() {
                count.fetch_add(1, shuttle::sync::atomic::Ordering::SeqCst);
            }
        })
    });
    let reads = [(); 2].map(|()| {
        let pages = Arc::clone(&pages);
        thread::spawn(move || {
            let seen = ends(&pages);
            assert!(
                seen.windows(2).all(|pair| pair[0] == pair[1]),
                "a compare-and-write over two pages was seen in halves: {seen:?} (docs/volume-contract.md, Comparing)"
            );
        })
    });
    for core in compares.into_iter().chain(reads) {
        core.join().unwrap();
    }
    let end = ends(&pages);
    let done = count.load(shuttle::sync::atomic::Ordering::SeqCst);
    let possible = match end[0] {
        2 | 4 => 1,
        3 => 2,
        other => panic!("{other} was never written as a whole"),
    };
    assert_eq!(
        end[0], end[1],
        "the last compare-and-write is there in halves (docs/volume-contract.md, Comparing)"
    );
    assert_eq!(
        done, possible,
        "each success writes, and only on what it compared (docs/volume-contract.md, Comparing)"
    );
}

#[test]
fn a_compare_and_write_is_whole_in_random_orders() {
    shuttle::check_random(compare_and_writes_over_pages, ORDERS);
}

#[test]
fn a_compare_and_write_is_whole_in_rare_orders() {
    shuttle::check_pct(compare_and_writes_over_pages, ORDERS, 3);
}

#[test]
fn what_is_lent_does_not_change_in_random_orders() {
    shuttle::check_random(readers_and_writers, ORDERS);
}

#[test]
fn what_is_lent_does_not_change_in_rare_orders() {
    shuttle::check_pct(readers_and_writers, ORDERS, 3);
}
