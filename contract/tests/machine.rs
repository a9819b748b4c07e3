//! What the rules say about a machine, at and beside each limit.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use expert_contract::diagnostic::Code;
use expert_contract::manifest::Options;
use expert_contract::plan::DeviceKind;
use expert_contract::read::from_bytes;
use expert_contract::rules::{MachineFacts, check_machine};

fn found(config: &str, device: DeviceKind, devices: u32) -> Vec<Code> {
    found_in(config, MachineFacts { device, devices, launched: None })
}

fn found_in(config: &str, facts: MachineFacts) -> Vec<Code> {
    found_of(r#""Qwen/Qwen3-0.6B""#, config, facts)
}

fn found_of(base: &str, config: &str, facts: MachineFacts) -> Vec<Code> {
    let manifest = format!(
        r#"{{"name": "x", "base_models": [{base}],
            "training": {{"dataset": "a.jsonl", "config": {{"rank": 8, "alpha": 16, {config}}}}}}}"#
    );
    let loaded = from_bytes(manifest.into_bytes(), Path::new("/nowhere/manifest.json"), &Options::default());
    let manifest = loaded.manifest.unwrap();
    let problems = check_machine(&manifest.effective(0).unwrap(), facts);
    manifest.locate(problems).iter().map(|found| found.code).collect()
}

#[test]
fn as_many_processes_as_there_are_devices_and_no_more() {
    for (processes, devices, fits) in [(1, 1, true), (2, 1, false), (2, 2, true), (2, 3, true), (3, 2, false)]
    {
        let config = format!(r#""distributed": {{"processes": {processes}}}"#);
        let expected = if fits { vec![] } else { vec![Code::TooFewDevices] };
        assert_eq!(found(&config, DeviceKind::Cuda, devices), expected, "{processes} on {devices}");
        assert!(found(&config, DeviceKind::Cpu, devices).is_empty(), "processes share a CPU");
    }
    assert!(found(r#""distributed": {"processes": null}"#, DeviceKind::Cuda, 1).is_empty());
}

#[test]
fn a_launcher_has_started_as_many_processes_as_the_manifest_wants() {
    let launched = |config: &str| {
        found_in(config, MachineFacts { device: DeviceKind::Cuda, devices: 1, launched: Some(4) })
    };
    assert!(launched(r#""distributed": {"processes": 4}"#).is_empty(), "they may be on other machines");
    assert!(launched(r#""distributed": "ddp""#).is_empty());
    assert!(launched(r#""distributed": null"#).is_empty());
    assert_eq!(launched(r#""distributed": {"processes": 2}"#), [Code::LaunchedProcesses]);
}

#[test]
fn only_a_gpu_compiles_unasked() {
    let found = |config: &str, device| found(config, device, 1);
    let mode = r#""torch_compile_mode": "max-autotune""#;
    assert_eq!(found(mode, DeviceKind::Cpu), [Code::SwitchedOff]);
    assert_eq!(found(mode, DeviceKind::Mps), [Code::SwitchedOff]);
    assert!(found(mode, DeviceKind::Cuda).is_empty());
    assert!(found(&format!(r#"{mode}, "torch_compile": true"#), DeviceKind::Cpu).is_empty());
}

#[test]
fn sixteen_bits_of_fp16_only_on_a_gpu() {
    assert_eq!(found(r#""fp16": true"#, DeviceKind::Cpu, 1), [Code::Fp16OnCpu]);
    for (config, device) in [
        (r#""fp16": true"#, DeviceKind::Cuda),
        (r#""fp16": false"#, DeviceKind::Cpu),
        (r#""bf16": true"#, DeviceKind::Cpu),
    ] {
        assert!(found(config, device, 1).is_empty(), "{config}");
    }
    let held = |format: &str| format!(r#"{{"name": "Qwen/Qwen3-0.6B", "quantization": "{format}"}}"#);
    let facts = MachineFacts { device: DeviceKind::Cpu, devices: 1, launched: None };
    for format in ["bf16", "fp16"] {
        assert!(found_of(&held(format), r#""fp16": true"#, facts).is_empty(), "{format} decides");
    }
    assert_eq!(found_of(&held("int8"), r#""fp16": true"#, facts), [Code::Fp16OnCpu]);
}

#[test]
fn optimizers_are_paged_with_cuda_only() {
    for optimizer in ["paged_adamw_8bit", "paged_adamw_32bit"] {
        let config = format!(r#""optim": "{optimizer}""#);
        assert_eq!(found(&config, DeviceKind::Cpu, 1), [Code::PagedWithoutCuda]);
        assert_eq!(found(&config, DeviceKind::Mps, 1), [Code::PagedWithoutCuda]);
        assert!(found(&config, DeviceKind::Cuda, 1).is_empty());
    }
    assert!(found(r#""optim": "adamw_bnb_8bit""#, DeviceKind::Cpu, 1).is_empty());
}
