use super::*;

#[test]
fn results_are_delivered_in_order_for_any_number_of_threads() {
    let all = Threads::default();
    for threads in [1, 2, 3, 8] {
        let mut seen = Vec::new();
        run_ordered(
            all.workers(threads),
            &Cancel::new(),
            || (0, 0),
            numbered(100, |state: &mut (usize, usize), job| state.0 = job),
            |state| {
                state.1 = state.0 * 2;
                if state.0 % 7 == 0 {
                    std::thread::yield_now();
                }
                Ok(())
            },
            |state| {
                assert_eq!(state.1, state.0 * 2);
                seen.push(state.0);
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
    }
}

#[test]
fn the_earliest_failure_is_reported_and_nothing_after_it_delivered() {
    let all = Threads::default();
    for threads in [1, 2, 5] {
        let mut last = None;
        let result = run_ordered(
            all.workers(threads),
            &Cancel::new(),
            || 0,
            numbered(50, |state: &mut usize, job| *state = job),
            |job| match *job {
                20 | 21 => Err(Error::Corrupt(job.to_string().into())),
                _ => Ok(()),
            },
            |job| {
                last = Some(*job);
                Ok(())
            },
        );
        assert!(matches!(result, Err(Error::Corrupt(m)) if m == "20"));
        assert_eq!(last, Some(19));
    }
}

#[test]
fn jobs_under_way_take_no_more_memory_than_the_limit_unless_one_does_alone() {
    let all = Threads::default();
    for threads in [1, 2, 5] {
        let (now, most) = (Mutex::new(0u64), Mutex::new(0u64));
        let bytes = |job: usize| if job == 30 { 50 } else { 1 + job as u64 % 5 };
        run_within(
            all.workers(threads),
            &Cancel::new(),
            Memory { limit: 8, of: |job: &usize| Ok(bytes(*job)), read: |_: &mut usize| Ok(()) },
            || 0,
            numbered(60, |state: &mut usize, job| *state = job),
            |job| {
                let mut now = lock(&now);
                *now += bytes(*job);
                assert!(*now <= 8 || *job == 30 && *now == 50, "{now} bytes");
                let mut most = lock(&most);
                *most = most.max(*now);
                Ok(())
            },
            |job| {
                *lock(&now) -= bytes(*job);
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(*lock(&most), 50);
    }
}

#[test]
fn a_failure_wakes_those_that_wait_for_memory() {
    let result = run_within(
        Threads::default().workers(4),
        &Cancel::new(),
        Memory { limit: 2, of: |_: &usize| Ok(2), read: |_: &mut usize| Ok(()) },
        || 0,
        numbered(50, |state: &mut usize, job| *state = job),
        |job| if *job == 9 { Err(Error::Corrupt("9".into())) } else { Ok(()) },
        |_| Ok(()),
    );
    assert!(matches!(result, Err(Error::Corrupt(m)) if m == "9"));
}

#[test]
fn a_job_is_read_in_order_and_only_once_there_is_room_for_it() {
    let all = Threads::default();
    for threads in [1, 2, 5] {
        let now = Mutex::new(0u64);
        let mut seen = Vec::new();
        let read = |job: &mut usize| {
            let mut now = lock(&now);
            *now += 3;
            assert!(*now <= 7, "{now} bytes");
            seen.push(*job);
            if *job == 30 { Err(Error::Corrupt("30".into())) } else { Ok(()) }
        };
        let result = run_within(
            all.workers(threads),
            &Cancel::new(),
            Memory { limit: 7, of: |_: &usize| Ok(3), read },
            || 0,
            numbered(60, |state: &mut usize, job| *state = job),
            |_| Ok(()),
            |_| {
                *lock(&now) -= 3;
                Ok(())
            },
        );
        assert!(matches!(result, Err(Error::Corrupt(m)) if m == "30"));
        assert_eq!(seen, (0..=30).collect::<Vec<_>>());
    }
}

#[test]
fn a_panic_in_a_worker_becomes_an_error_and_nobody_waits_for_it() {
    let result = run_ordered(
        Threads::default().workers(4),
        &Cancel::new(),
        || 0,
        numbered(50, |state: &mut usize, job| *state = job),
        |job| if *job == 9 { panic!("on purpose") } else { Ok(()) },
        |_| Ok(()),
    );
    assert!(matches!(result, Err(Error::Io { .. })));
}
