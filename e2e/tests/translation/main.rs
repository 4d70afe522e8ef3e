//! `csi-translation` beside the Go library that it stands for: thousands of made-up volumes and classes of each plugin, valid,
//! odd and malformed, through both. The results must be the same, and so must be the kind of error.
//!
//! The same inputs in every run; `OUTRIGGER_SEED=N` makes others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod answers;
mod classes;
mod dice;
mod volumes;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::{env, thread};

use answers::{Answer, go_answer, our_answer};
use dice::Dice;
use e2e::programs::{self, TRANSLATION};
use serde_json::{Value, json};
use storage_kube::in_tree::InTreePlugin;

const INPUTS: usize = 3000;

fn seed() -> u64 {
    env::var("OUTRIGGER_SEED").ok().map_or(20_261_130, |text| text.parse().expect("OUTRIGGER_SEED is a number"))
}

/// What the Go library makes of the questions.
fn asked(questions: &[Value]) -> Vec<Value> {
    let program = programs::ensure(&TRANSLATION).unwrap();
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines = questions.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    let writer = thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{}", output.status);
    let answers = String::from_utf8(output.stdout).unwrap();
    answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// How many of the answers are results and errors.
fn compare(questions: &[Value]) -> (usize, usize) {
    let (mut results, mut errors) = (0, 0);
    let answers = asked(questions);
    assert_eq!(answers.len(), questions.len());
    for (question, answer) in questions.iter().zip(answers) {
        let (ours, go) = (our_answer(question), go_answer(question, &answer));
        let same = match (&ours, &go) {
            (Answer::Result(ours), Answer::Result(go)) => ours == go,
            (Answer::Error(kind, _), Answer::Error(go, _)) => kind == go,
            _ => false,
        };
        assert!(same, "seed {}\nquestion {question}\nours {ours}\nGo   {go}", seed());
        match ours {
            Answer::Result(_) => results += 1,
            Answer::Error(..) => errors += 1,
        }
    }
    (results, errors)
}

/// `can_fail`: whether an error is possible at all.
fn compare_each(salt: u64, question: impl Fn(&mut Dice, InTreePlugin) -> Value, can_fail: &[InTreePlugin]) {
    for (number, plugin) in (0..).zip(InTreePlugin::ALL) {
        let mut dice = Dice::new(seed().wrapping_mul(64) + salt * 8 + number);
        let questions: Vec<_> = (0..INPUTS).map(|_| question(&mut dice, plugin)).collect();
        let (results, errors) = compare(&questions);
        assert!(results > INPUTS / 10, "{plugin:?}: the inputs are too bad to tell anything");
        assert_eq!(errors > INPUTS / 50, can_fail.contains(&plugin), "{plugin:?}: {errors} errors");
    }
}

#[test]
fn classes() {
    use InTreePlugin::{AwsEbs, AzureDisk, GcePd};
    compare_each(1, classes::question, &[AwsEbs, GcePd, AzureDisk]);
}

#[test]
fn volumes_of_plugins() {
    use InTreePlugin::{AwsEbs, AzureDisk, AzureFile, GcePd};
    compare_each(2, volumes::of_plugin, &[AwsEbs, GcePd, AzureDisk, AzureFile]);
}

#[test]
fn volumes_of_drivers() {
    use InTreePlugin::{AwsEbs, AzureDisk, AzureFile, GcePd};
    compare_each(3, volumes::of_driver, &[AwsEbs, GcePd, AzureDisk, AzureFile]);
}

#[test]
fn handles_and_node_ids() {
    compare_each(4, volumes::repair, &[InTreePlugin::GcePd]);
}

#[test]
fn names_and_what_is_migratable() {
    let mut dice = Dice::new(seed());
    let pools = InTreePlugin::ALL.iter().flat_map(|plugin| [plugin.as_str(), plugin.driver()]);
    let names: Vec<_> = pools.chain(["", "kubernetes.io/rbd", "hostpath.csi.k8s.io"]).collect();
    let questions = (0..INPUTS).map(|_| {
        let field = dice.pick(&[
            "awsElasticBlockStore",
            "gcePersistentDisk",
            "cinder",
            "azureDisk",
            "azureFile",
            "vsphereVolume",
            "portworxVolume",
            "nfs",
            "csi",
        ]);
        let object = json!({ "metadata": { "name": "pv" }, "spec": { field: {} } });
        json!({ "operation": "names", "driver": dice.pick(&names), "plugin": dice.pick(&names), "object": object })
    });
    let questions: Vec<_> = questions.collect();
    assert_eq!(compare(&questions), (INPUTS, 0));
}
