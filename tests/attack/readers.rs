//! Damaged and forged archives in front of both readers: neither panics, takes much memory or
//! restores other bytes, and both accept the same.

use crate::{
    case::{Cases, Draw},
    common::Rng,
    forge::{self, Forged},
    oracle::judge,
    recode,
    subject::{Subject, Subjects},
    table,
};
use std::sync::Arc;

fn attack(name: &'static str, make: impl Fn(&Arc<Subject>, &mut Subjects, &mut Rng) -> Forged) {
    let (mut cases, mut subjects) = (Cases::new(name), Subjects::default());
    while let Some(mut case) = cases.next() {
        let subject = subjects.draw(case.number);
        let forged = make(&subject, &mut subjects, &mut case.rng);
        judge(&mut cases, &mut case, &subject, &forged);
    }
    println!("{name}: {} archives", subjects.all_made());
    cases.finish();
}

#[test]
fn damaged_archives_are_refused_or_restore_what_they_held() {
    attack("damage", |subject, _, rng| forge::damage(subject, rng));
}

#[test]
fn forged_metadata_never_restores_other_bytes() {
    attack("metadata", |subject, _, rng| forge::metadata(subject, rng));
}

#[test]
fn forged_payloads_never_restore_other_bytes() {
    attack("payloads", |subject, _, rng| forge::payload(subject, rng));
}

#[test]
fn payloads_that_decode_to_something_else_restore_just_that_under_its_digest() {
    attack("payloads with digests", |subject, _, rng| recode::recoded(subject, rng));
}

#[test]
fn forged_fields_of_tables_never_restore_other_bytes_or_what_is_no_name() {
    attack("fields of tables", |subject, _, rng| table::fields(subject, rng));
}

#[test]
fn forged_tables_never_restore_other_bytes() {
    attack("tables", |subject, _, rng| forge::tables(subject, rng));
}

#[test]
fn tables_of_very_many_entries_take_little_memory() {
    attack("many entries", |subject, _, rng| forge::bombs(subject, rng));
}

#[test]
fn records_of_other_archives_and_in_other_orders_are_noticed() {
    attack("splices", |subject, subjects, rng| {
        let other = subjects.draw(rng.below(1 << 12) as u64);
        forge::splice(subject, &other, rng)
    });
}
