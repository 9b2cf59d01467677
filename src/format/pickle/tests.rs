use super::{PickleFault, Value, load};

#[test]
fn protocols_0_to_5_build_the_same_dict() {
    // {"a": [1, True, None, 2.5], "b": (7,)}
    let protocol_0 = b"(dp0\nVa\np1\n(lp2\nI1\naI01\naNaF2.5\nasVb\n(I7\ntp3\ns.";
    let protocol_2 =
        b"\x80\x02}q\x00(X\x01\0\0\0aq\x01]q\x02(K\x01\x88NG@\x04\0\0\0\0\0\0eX\x01\0\0\0bK\x07\x85u.";
    let protocol_4 =
        b"\x80\x04\x95\x1d\0\0\0\0\0\0\0}\x94(\x8c\x01a\x94]\x94(K\x01\x88NG@\x04\0\0\0\0\0\0e\x8c\x01b\x94K\x07\x85\x94u.";
    for bytes in [&protocol_0[..], protocol_2, protocol_4] {
        let pickle = load(bytes).unwrap();
        assert_eq!(pickle.len, bytes.len());
        let Value::Dict(pairs) = pickle.get(pickle.root) else { panic!() };
        assert_eq!(pickle.str(pairs[0]), Some(&b"a"[..]));
        let list: Vec<_> =
            pickle.sequence(pairs[1]).unwrap().iter().map(|id| pickle.get(*id)).collect();
        let want = [&Value::Int(1), &Value::Bool(true), &Value::None, &Value::Float(2.5)];
        assert_eq!(list, want);
        let tuple = pickle.sequence(pairs[3]).unwrap();
        assert_eq!(pickle.int(tuple[0]), Some(7));
    }
}

#[test]
fn integers_of_every_width_are_read() {
    let int = |bytes: &[u8]| {
        let pickle = load(bytes).unwrap();
        pickle.int(pickle.root)
    };
    assert_eq!(int(b"K\xff."), Some(255));
    assert_eq!(int(b"M\xff\xff."), Some(65535));
    assert_eq!(int(b"J\xff\xff\xff\xff."), Some(-1));
    assert_eq!(int(b"\x8a\x00."), Some(0));
    assert_eq!(int(b"\x8a\x01\x80."), Some(-128));
    assert_eq!(int(b"\x8a\x02\x80\x00."), Some(128));
    assert_eq!(int(b"\x8b\x01\0\0\0\x05."), Some(5));
    assert_eq!(int(b"L12L\n."), Some(12));
    assert_eq!(int(b"\x8a\x0a0123456789."), None);
}

#[test]
fn calls_are_recorded_with_state_and_items() {
    let pickle = load(b"cos\nsystem\n(K\x01tR(K\x02K\x03u(K\x04eK\x05b.").unwrap();
    let Value::Call { func, args, state, items } = pickle.get(pickle.root) else { panic!() };
    assert!(matches!(pickle.get(*func), Value::Global(..)));
    assert_eq!(pickle.sequence(*args).unwrap().len(), 1);
    assert_eq!(state.and_then(|s| pickle.int(s)), Some(5));
    let items = items.as_ref().unwrap();
    assert_eq!((items.pairs.len(), items.elements.len()), (2, 1));
}

#[test]
fn cut_off_pickles_are_short_and_wrong_ones_bad() {
    let whole = b"\x80\x02}q\x00(X\x01\0\0\0aK\x01u.";
    for n in 0..whole.len() {
        assert_eq!(load(&whole[..n]).err(), Some(PickleFault::Short), "{n}");
    }
    for wrong in ["0.", "t.", "}K\x01s.", "(K\x01d.", "a.", "e.", "b.", "K\x01K\x02\u{1}.", "q\0."]
    {
        assert!(matches!(load(wrong.as_bytes()), Err(PickleFault::Bad(_))), "{wrong:?}");
    }
}
