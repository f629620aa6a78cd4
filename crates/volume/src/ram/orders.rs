//! Under shuttle's scheduler: what is lent does not change, in whatever order cores come.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p volume --lib ram::orders` runs it; elsewhere it is not compiled.

use std::sync::Arc;

use buf::{Buf, BufList, SharedBuf};
use shuttle::thread;

use super::lender::Lender;
use super::page::PAGE;
use super::pages::Pages;

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
        pages.zero((0, PAGE as u64), true, usize::MAX);
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

#[test]
fn what_is_lent_does_not_change_in_random_orders() {
    shuttle::check_random(readers_and_writers, ORDERS);
}

#[test]
fn what_is_lent_does_not_change_in_rare_orders() {
    shuttle::check_pct(readers_and_writers, ORDERS, 3);
}
