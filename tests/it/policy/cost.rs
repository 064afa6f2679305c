//! What rules that do not apply cost: nothing is allocated for them, and the index passes them by.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use aforo::{
    policy::Policy,
    rules::{Selection, select},
};

use super::facts::get;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// Counts the allocations of each thread.
struct Counting;

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is ending has no counter any more.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations of one selection: one limit applies, `others` do not.
fn allocations(others: usize, when: fn(usize) -> String) -> usize {
    let mut limits: Vec<String> = (0..others)
        .map(|i| {
            format!(
                r#"{{"name":"l{i}","when":{},"key":["header:x-user"],"algorithm":"gcra","rate":"5/10s"}}"#,
                when(i)
            )
        })
        .collect();
    limits.push(
        r#"{"name":"this","key":["header:x-user"],"algorithm":"gcra","rate":"5/10s"}"#.to_owned(),
    );
    let json = format!(r#"{{"limits":[{}]}}"#, limits.join(","));
    let (policy, _) = Policy::from_json(json.as_bytes()).unwrap();
    let request = || {
        get("/this/path")
            .header("x-user", "alice")
            .header("x-service", "this")
    };
    // A regular expression makes its caches when it is first used, and keeps them.
    let _ = select(&policy, &request());
    let request = request();
    // Once before, so that what the test's own facts remember has its room.
    request.asked.borrow_mut().reserve(64);
    let before = ALLOCATIONS.get();
    let selection = select(&policy, &request);
    let count = ALLOCATIONS.get() - before;
    assert!(matches!(selection, Selection::Claims(claims) if claims.len() == 1));
    count
}

#[test]
fn rules_that_do_not_apply_allocate_nothing() {
    for when in [
        (|i| format!(r#"{{"path":"/svc{i}/"}}"#)) as fn(usize) -> String,
        |i| format!(r#"{{"path":"/this/path","headers":{{"x-service":"svc{i}"}}}}"#),
        |i| format!(r#"{{"headers":{{"x-service":{{"prefix":"svc{i}"}}}}}}"#),
        |i| format!(r#"{{"path":{{"regex":"/svc{i}/.*"}}}}"#),
        |i| format!(r#"{{"ip":"10.{}.{}.0/24"}}"#, i / 250, i % 250),
        |i| format!(r#"{{"hosts":"svc{i}.example.com"}}"#),
        |_| r#"{"methods":["POST"]}"#.to_owned(),
    ] {
        let (few, many) = (allocations(1, when), allocations(300, when));
        // The list of candidates grows by doubling.
        assert!(
            many <= few + 8,
            "{}: {few} with 1 rule, {many} with 300",
            when(0)
        );
    }
}
