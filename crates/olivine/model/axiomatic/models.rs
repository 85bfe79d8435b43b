//! The axioms: RC11 for the language, ARMv8 for the machine.
//!
//! RC11: see Lahav, Vafeiadis, Kang, Hur and Dreyer, "Repairing Sequential Consistency in C/C++11"
//! (PLDI 2017), with the release sequences of C++20: stores of the same thread no longer belong to
//! them, so less is ordered. ARMv8: see Pulte et al., "Simplifying ARM Concurrency" (POPL 2018), in
//! the wording of `aarch64.cat` of herd7 that belongs to issue H.a of the architecture manual:
//! multi-copy atomic, with `ob` acyclic.
//!
//! Rust's accesses are compiled for ARM as in LLVM, or weaker if it has a choice: an acquire load
//! is `ldapr`, a read-modify-write an exclusive pair, a release fence `dmb ish`, an acquire fence
//! `dmb ishld`.

use crate::execution::{Execution, NO_THREAD};
use crate::litmus::Order;
use crate::relation::Relation;
use crate::trace::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Model {
    Rc11,
    Armv8,
    /// Sequential consistency: the checker is compared with it.
    Sc,
}

impl Model {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rc11 => "RC11",
            Self::Armv8 => "ARMv8",
            Self::Sc => "SC",
        }
    }
}

/// The verdict of a model on an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Never,
    Happens,
    /// It happens, with a data race on a plain place, which is undefined behaviour.
    Race(usize, usize),
}

pub(crate) fn judge(model: Model, execution: &Execution) -> Verdict {
    match model {
        Model::Rc11 => rc11(execution),
        Model::Armv8 if armv8(execution) => Verdict::Happens,
        Model::Sc if sc(execution) => Verdict::Happens,
        Model::Armv8 | Model::Sc => Verdict::Never,
    }
}

fn sc(x: &Execution) -> bool {
    x.po.union(&x.sync)
        .union(&x.rf)
        .union(&x.co)
        .union(&x.fr())
        .is_acyclic()
}

fn rc11(x: &Execution) -> Verdict {
    let events = &x.events;
    let sb = &x.po;
    let fence = |e: usize| {
        matches!(
            events[e].kind,
            Kind::Fence | Kind::HeavyBegins | Kind::HeavyEnds | Kind::Struck
        )
    };
    let read = |e: usize| x.is(e, Kind::Read);
    let write = |e: usize| x.is(e, Kind::Write);
    let atomic = |e: usize| events[e].order != Order::Plain;
    // A load has no release and a store no acquire: the halves of a read-modify-write share one
    // order.
    let releases = |e: usize| events[e].order.releases() && (write(e) || fence(e));
    let acquires = |e: usize| events[e].order.acquires() && (read(e) || fence(e));
    let all = |_: usize| true;

    // rs = [W rlx]; (rf; rmw)*
    let chain = x.rf.then(&x.rmw).closure().maybe();
    let sequence = chain.between(|e| write(e) && atomic(e), all);
    // sw = [rel]; ([F]; sb)?; rs; rf; [R rlx]; (sb; [F])?; [acq]
    let seen = sequence.then(&x.rf).between(all, |e| read(e) && atomic(e));
    let before = sb.between(fence, all).maybe();
    let after = sb.between(all, fence).maybe();
    let sw = before.then(&seen).then(&after).between(releases, acquires);
    let hb = sb.union(&sw).union(&x.sync).closure();
    let fr = x.fr();
    let eco = x.rf.union(&x.co).union(&fr).closure();
    if !hb.is_irreflexive() || !hb.then(&eco).is_irreflexive() {
        return Verdict::Never;
    }
    if !sb.union(&x.sync).union(&x.rf).is_acyclic() {
        return Verdict::Never;
    }
    let strong = |e: usize| events[e].order == Order::SeqCst;
    if (0..x.size()).any(strong) {
        let same = Relation::of(x.size(), |a, b| x.same_place(a, b));
        let other = sb.minus(&same);
        let scb = sb
            .union(&other.then(&hb).then(&other))
            .union(&hb.both(&same))
            .union(&x.co)
            .union(&fr);
        let strong_fence = |e: usize| strong(e) && fence(e);
        let none = Relation::new(x.size());
        let itself = none.maybe().between(strong, strong);
        let from = itself.union(&hb.maybe().between(strong_fence, all));
        let to = itself.union(&hb.maybe().between(all, strong_fence));
        let base = from.then(&scb).then(&to);
        let fences = hb.union(&hb.then(&eco).then(&hb));
        let psc = base.union(&fences.between(strong_fence, strong_fence));
        if !psc.is_acyclic() {
            return Verdict::Never;
        }
    }
    for a in 0..x.size() {
        for b in a + 1..x.size() {
            let threads = events[a].thread != events[b].thread && events[a].thread != NO_THREAD;
            if threads
                && x.same_place(a, b)
                && (write(a) || write(b))
                && !(atomic(a) && atomic(b))
                && !hb.has(a, b)
                && !hb.has(b, a)
            {
                return Verdict::Race(a, b);
            }
        }
    }
    Verdict::Happens
}

fn armv8(x: &Execution) -> bool {
    let events = &x.events;
    let size = x.size();
    let po = &x.po;
    let read = |e: usize| x.is(e, Kind::Read);
    let write = |e: usize| x.is(e, Kind::Write);
    let access = |e: usize| x.is_access(e);
    let all = |_: usize| true;
    // ldar and the exclusive loads; also ldapr.
    let modifies = |e: usize| (0..size).any(|w| x.rmw.has(e, w));
    let acquire = |e: usize| {
        let order = events[e].order;
        read(e) && (order == Order::SeqCst || modifies(e) && order.acquires())
    };
    let acquire_pc = |e: usize| read(e) && events[e].order.acquires();
    let release = |e: usize| write(e) && events[e].order.releases();
    let full = |e: usize| match events[e].kind {
        Kind::Fence => events[e].order.releases(),
        Kind::HeavyBegins | Kind::HeavyEnds | Kind::Struck => true,
        _ => false,
    };
    let load_fence = |e: usize| x.is(e, Kind::Fence) && events[e].order == Order::Acquire;

    let same = Relation::of(size, |a, b| x.same_place(a, b));
    let po_loc = po.both(&same);
    let fr = x.fr();
    let inside = po_loc.union(&x.rf).union(&x.co).union(&fr);
    if !inside.is_acyclic() {
        return false;
    }
    let bits =
        |of: &dyn Fn(usize) -> u64| Relation::of(size, |a, b| read(a) && of(b) >> a & 1 == 1);
    let address = bits(&|e| events[e].address);
    let data = bits(&|e| events[e].data);
    let control = bits(&|e| events[e].control);
    // A read of the newest write to the place by the same thread.
    let hidden = po_loc.between(all, write).then(&po_loc);
    let local = po_loc.minus(&hidden).between(write, read);
    let isb = |e: usize| x.is(e, Kind::Isb);
    let behind_isb = control
        .union(&address.then(po))
        .between(all, isb)
        .then(&po.between(isb, access));
    let dependency = address
        .union(&data)
        .union(&control.between(all, write))
        .union(&behind_isb)
        .union(&address.then(&po.between(all, write)))
        .union(&address.union(&data).then(&local));
    let modify = x.rmw.union(
        &x.rmw
            .then(&local)
            .between(all, |e| acquire(e) || acquire_pc(e)),
    );
    let barrier = po
        .between(all, full)
        .union(&po.between(full, all))
        .union(&po.between(release, acquire))
        .union(
            &po.between(read, load_fence)
                .then(&po.between(load_fence, all)),
        )
        .union(&po.between(|e| acquire(e) || acquire_pc(e), all))
        .union(&po.between(all, release));
    let local_order = po_loc.between(all, write);
    let observed = x.external(&x.rf.union(&x.co).union(&fr));
    let ob = observed
        .union(&local_order)
        .union(&dependency)
        .union(&modify)
        .union(&barrier)
        .union(&x.sync);
    ob.is_acyclic()
}
