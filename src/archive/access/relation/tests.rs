use super::*;

fn item(file: &str, name: Option<&str>, dtype: Dtype, offset: u64, len: u64) -> Item {
    let span = Span { offset, len, dtype, row_words: 0, big_endian: false };
    Item { span, file: file.into(), name: name.map(str::to_owned), place: None, state: None }
}

#[test]
fn spans_find_their_base_by_name_then_by_order() {
    let f32 = Dtype::F32;
    let base = [
        item("a", None, Dtype::BYTES, 0, 8),
        item("a", Some("x"), f32, 8, 40),
        item("a", Some("y"), f32, 48, 40),
        item("b", Some("z"), f32, 88, 40),
        item("b", Some("old"), f32, 128, 80),
        item("b", Some("kind"), f32, 208, 80),
    ];
    let new = [
        item("a", None, Dtype::BYTES, 0, 8),
        item("a", Some("y"), f32, 8, 40),
        item("a", Some("z"), f32, 48, 40),
        item("a", Some("x"), f32, 88, 40),
        item("b", Some("new"), f32, 128, 80),
        item("b", Some("kind"), Dtype::BF16, 208, 40),
        item("b", Some("other"), f32, 248, 44),
    ];
    let at = |l: &Option<Link>| l.map(|l| l.offset);
    let found: Vec<_> = links(&new, &base).iter().map(at).collect();
    assert_eq!(found, [None, Some(48), Some(88), Some(8), Some(128), Some(208), None]);
}

#[test]
fn families_are_found_across_files_and_inside_one() {
    let (f32, bf16) = (Dtype::F32, Dtype::BF16);
    let items = [
        item("s/exp_avg.safetensors", Some("w"), f32, 0, 400),
        item("s/exp_avg_sq.safetensors", Some("w"), f32, 400, 400),
        item("s/master.safetensors", Some("w"), f32, 800, 400),
        item("s/model-00001-of-00002.safetensors", Some("w"), bf16, 1200, 200),
        item("t.pt", Some("optimizer.state.3.exp_avg"), f32, 1400, 400),
        item("t.pt", Some("optimizer.state.3.exp_avg_sq"), f32, 1800, 400),
        item("t.pt", Some("optimizer.state.4.exp_avg_sq"), f32, 2200, 400),
    ];
    let found = families(items.iter().enumerate());
    assert_eq!(
        found,
        [[Some(1), Some(0), Some(2), Some(3), None], [Some(5), Some(4), None, None, None]]
    );
}

#[test]
fn flat_groups_belong_to_the_states_of_their_number() {
    let f32 = Dtype::F32;
    let file = "zero_pp_rank_0_mp_rank_00_optim_states.pt";
    let of = |name: &str, offset| {
        item(file, Some(&format!("optimizer_state_dict.{name}")), f32, offset, 400)
    };
    let items = [
        of("single_partition_of_fp32_groups.1", 0),
        of("base_optimizer_state.state.1.exp_avg", 400),
        of("base_optimizer_state.state.1.exp_avg_sq", 800),
        of("fp32_flat_groups.0", 1200),
        of("optimizer_state_dict.state.0.exp_avg", 1600),
        item("distrib_optim.pt", Some("0.bf16.0.param"), f32, 2000, 400),
        item("distrib_optim.pt", Some("0.bf16.0.exp_avg"), f32, 2400, 400),
    ];
    let found = families(items.iter().enumerate());
    let with = |v: Option<usize>, m, w| [v, Some(m), Some(w), None, None];
    assert_eq!(found, [with(Some(2), 1, 0), with(None, 4, 3), with(None, 6, 5)]);
}

#[test]
fn averaged_copies_join_the_family_of_their_weights() {
    let f32 = Dtype::F32;
    let items = [
        item("t.pt", Some("model.a"), f32, 0, 400),
        item("t.pt", Some("ema.a"), f32, 400, 400),
        item("unet/model.safetensors", Some("b"), f32, 800, 400),
        item("unet_ema/model.safetensors", Some("b"), f32, 1200, 400),
        item("x/exp_avg.safetensors", Some("c"), f32, 1600, 400),
        item("x/model.safetensors", Some("c"), f32, 2000, 400),
        item("x/ema.safetensors", Some("c"), f32, 2400, 400),
        item("x/ema.safetensors", Some("other"), f32, 2800, 400),
    ];
    let found = families(items.iter().enumerate());
    let pair = |w, a| [None, None, Some(w), None, Some(a)];
    assert_eq!(found.len(), 3);
    assert!(found.contains(&pair(0, 1)) && found.contains(&pair(2, 3)));
    assert!(found.contains(&[None, Some(4), Some(5), None, Some(6)]));
}
