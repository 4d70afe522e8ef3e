#![allow(clippy::unwrap_used)]

use super::{SecretKind::*, *};

const NEW_NAME: &str = "csi.storage.k8s.io/node-publish-secret-name";
const NEW_NAMESPACE: &str = "csi.storage.k8s.io/node-publish-secret-namespace";
const OLD_NAME: &str = "csiNodePublishSecretName";
const OLD_NAMESPACE: &str = "csiNodePublishSecretNamespace";
const PR_NAME: &str = "csi.storage.k8s.io/provisioner-secret-name";
const PR_NAMESPACE: &str = "csi.storage.k8s.io/provisioner-secret-namespace";
const DEFAULT_NAME: &str = "csi.storage.k8s.io/secret-name";
const DEFAULT_NAMESPACE: &str = "csi.storage.k8s.io/secret-namespace";

type Parameters = &'static [(&'static str, &'static str)];

struct Row {
    case: &'static str,
    kind: SecretKind,
    parameters: Parameters,
    claim: bool,
    /// name/namespace, or `None` for no reference.
    expected: Result<Option<(&'static str, &'static str)>, Kind>,
}

/// The variant of an error.
#[derive(Debug, PartialEq)]
enum Kind {
    GivenTwice,
    Incomplete,
    Empty,
    Unresolved,
    NotANamespace,
    NotASecretName,
}

fn kind_of(error: &Error) -> Kind {
    match error {
        Error::GivenTwice { .. } => Kind::GivenTwice,
        Error::Incomplete { .. } => Kind::Incomplete,
        Error::Empty { .. } => Kind::Empty,
        Error::Unresolved { .. } => Kind::Unresolved,
        Error::NotANamespace { .. } => Kind::NotANamespace,
        Error::NotASecretName { .. } => Kind::NotASecretName,
    }
}

fn map(parameters: &[(&str, &str)]) -> BTreeMap<String, String> {
    parameters.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect()
}

fn run(kind: SecretKind, parameters: &[(&str, &str)], claim: bool) -> Result<Option<SecretRef>, Error> {
    let annotations = map(&[("akey", "avalue"), ("odd'key", "odd")]);
    let claim =
        claim.then_some(ClaimValues { namespace: "pvcnamespace", name: "pvcname", annotations: Some(&annotations) });
    let values = TemplateValues { volume_name: "pvname", claim };
    resolve(kind, &map(parameters), &values)
}

fn row(
    case: &'static str,
    kind: SecretKind,
    parameters: Parameters,
    claim: bool,
    expected: Result<Option<(&'static str, &'static str)>, Kind>,
) -> Row {
    Row { case, kind, parameters, claim, expected }
}

#[expect(clippy::too_many_lines, reason = "one table, one row after the other")]
fn contract_rows() -> Vec<Row> {
    vec![
        row("no params", NodePublish, &[], false, Ok(None)),
        row("both empty", NodePublish, &[(OLD_NAME, ""), (OLD_NAMESPACE, "")], false, Err(Kind::Empty)),
        row("only old name", NodePublish, &[(OLD_NAME, "n")], false, Err(Kind::Incomplete)),
        row("only old namespace", NodePublish, &[(OLD_NAMESPACE, "n")], false, Err(Kind::Incomplete)),
        row("only new name", NodePublish, &[(NEW_NAME, "n")], false, Err(Kind::Incomplete)),
        row("only new namespace", NodePublish, &[(NEW_NAMESPACE, "n")], false, Err(Kind::Incomplete)),
        row(
            "deprecated pair",
            NodePublish,
            &[(OLD_NAME, "name"), (OLD_NAMESPACE, "ns")],
            false,
            Ok(Some(("name", "ns"))),
        ),
        row("new pair", NodePublish, &[(NEW_NAME, "name"), (NEW_NAMESPACE, "ns")], false, Ok(Some(("name", "ns")))),
        row(
            "deprecated name, new namespace",
            NodePublish,
            &[(OLD_NAME, "name"), (NEW_NAMESPACE, "ns")],
            false,
            Ok(Some(("name", "ns"))),
        ),
        row(
            "both pairs",
            NodePublish,
            &[(OLD_NAME, "name"), (OLD_NAMESPACE, "ns"), (NEW_NAME, "name"), (NEW_NAMESPACE, "ns")],
            false,
            Err(Kind::GivenTwice),
        ),
        row(
            "extra new name",
            NodePublish,
            &[(OLD_NAME, "name"), (OLD_NAMESPACE, "ns"), (NEW_NAME, "name")],
            false,
            Err(Kind::GivenTwice),
        ),
        row(
            "extra new namespace",
            NodePublish,
            &[(OLD_NAME, "name"), (OLD_NAMESPACE, "ns"), (NEW_NAMESPACE, "ns")],
            false,
            Err(Kind::GivenTwice),
        ),
        row(
            "pair without claim",
            Provisioner,
            &[(PR_NAME, "name"), (PR_NAMESPACE, "ns")],
            false,
            Ok(Some(("name", "ns"))),
        ),
        row(
            "literal values with a claim",
            Provisioner,
            &[(PR_NAME, "param-name"), (PR_NAMESPACE, "param-ns")],
            true,
            Ok(Some(("param-name", "param-ns"))),
        ),
        row(
            "bad name",
            NodePublish,
            &[(NEW_NAME, "bad name"), (NEW_NAMESPACE, "ns")],
            false,
            Err(Kind::NotASecretName),
        ),
        row(
            "bad namespace",
            NodePublish,
            &[(NEW_NAME, "n"), (NEW_NAMESPACE, "bad ns")],
            false,
            Err(Kind::NotANamespace),
        ),
        row("name template only", Provisioner, &[(PR_NAME, "static-${pvc.name}")], true, Err(Kind::Incomplete)),
        row(
            "provisioner templates with annotation",
            Provisioner,
            &[(PR_NAMESPACE, "static-${pvc.namespace}"), (PR_NAME, "static-${pvc.name}-${pvc.annotations['akey']}")],
            true,
            Ok(Some(("static-pvcname-avalue", "static-pvcnamespace"))),
        ),
        row(
            "node-publish templates",
            NodePublish,
            &[
                (NEW_NAMESPACE, "static-${pv.name}-${pvc.namespace}"),
                (NEW_NAME, "static-${pv.name}-${pvc.namespace}-${pvc.name}-${pvc.annotations['akey']}"),
            ],
            true,
            Ok(Some(("static-pvname-pvcnamespace-pvcname-avalue", "static-pvname-pvcnamespace"))),
        ),
        row(
            "provisioner templates",
            Provisioner,
            &[
                (PR_NAMESPACE, "static-provisioner-${pv.name}-${pvc.namespace}"),
                (PR_NAME, "static-provisioner-${pv.name}-${pvc.namespace}-${pvc.name}"),
            ],
            true,
            Ok(Some(("static-provisioner-pvname-pvcnamespace-pvcname", "static-provisioner-pvname-pvcnamespace"))),
        ),
        row(
            "name token",
            Provisioner,
            &[(PR_NAME, "${pvc.name}"), (PR_NAMESPACE, "ns")],
            true,
            Ok(Some(("pvcname", "ns"))),
        ),
        row(
            "two tokens",
            Provisioner,
            &[(PR_NAME, "${pvc.name}"), (PR_NAMESPACE, "${pvc.namespace}")],
            true,
            Ok(Some(("pvcname", "pvcnamespace"))),
        ),
        row(
            "namespace token",
            Provisioner,
            &[(PR_NAME, "static"), (PR_NAMESPACE, "${pvc.namespace}")],
            true,
            Ok(Some(("static", "pvcnamespace"))),
        ),
        row(
            "unknown namespace token",
            Provisioner,
            &[(PR_NAME, "n"), (PR_NAMESPACE, "static-${bar}")],
            true,
            Err(Kind::Unresolved),
        ),
        row(
            "unknown name token",
            Provisioner,
            &[(PR_NAME, "static-${foo}"), (PR_NAMESPACE, "static-${pvc.namespace}")],
            true,
            Err(Kind::Unresolved),
        ),
    ]
}

fn further_rows() -> Vec<Row> {
    const PAIR: Parameters = &[(DEFAULT_NAME, "d-${pvc.name}"), (DEFAULT_NAMESPACE, "dns")];
    const OWN_AND_DEFAULT: Parameters =
        &[(DEFAULT_NAME, "d"), (DEFAULT_NAMESPACE, "dns"), (NEW_NAME, "own"), (NEW_NAMESPACE, "ownns")];
    vec![
        row("default pair", ControllerModify, PAIR, true, Ok(Some(("d-pvcname", "dns")))),
        row("own pair before default", NodePublish, OWN_AND_DEFAULT, true, Ok(Some(("own", "ownns")))),
        row("others take the default", NodeStage, OWN_AND_DEFAULT, true, Ok(Some(("d", "dns")))),
        row(
            "a broken own pair is not covered by the default",
            Provisioner,
            &[(DEFAULT_NAME, "d"), (DEFAULT_NAMESPACE, "dns"), (PR_NAME, "n")],
            true,
            Err(Kind::Incomplete),
        ),
        row("half a default", Provisioner, &[(DEFAULT_NAME, "d")], true, Err(Kind::Incomplete)),
        row("empty default", Provisioner, &[(DEFAULT_NAME, ""), (DEFAULT_NAMESPACE, "x")], true, Err(Kind::Empty)),
        row("empty namespace", Provisioner, &[(PR_NAME, "n"), (PR_NAMESPACE, "")], true, Err(Kind::Empty)),
        row(
            "claim tokens without a claim",
            Provisioner,
            &[(PR_NAME, "${pvc.name}"), (PR_NAMESPACE, "ns")],
            false,
            Err(Kind::Unresolved),
        ),
        row(
            "claim name in a namespace",
            Provisioner,
            &[(PR_NAME, "n"), (PR_NAMESPACE, "${pvc.name}")],
            true,
            Err(Kind::Unresolved),
        ),
        row(
            "annotation in a namespace",
            Provisioner,
            &[(PR_NAME, "n"), (PR_NAMESPACE, "${pvc.annotations['akey']}")],
            true,
            Err(Kind::Unresolved),
        ),
        row(
            "annotation the claim lacks",
            Provisioner,
            &[(PR_NAME, "${pvc.annotations['other']}"), (PR_NAMESPACE, "ns")],
            true,
            Err(Kind::Unresolved),
        ),
        row(
            "annotation key with a quote",
            Provisioner,
            &[(PR_NAME, "${pvc.annotations['odd'key']}"), (PR_NAMESPACE, "ns")],
            true,
            Ok(Some(("odd", "ns"))),
        ),
        row("unbraced token", Provisioner, &[(PR_NAME, "$pv.name"), (PR_NAMESPACE, "ns")], true, Err(Kind::Unresolved)),
        row("swallowed token", Provisioner, &[(PR_NAME, "${}"), (PR_NAMESPACE, "ns")], true, Err(Kind::NotASecretName)),
        row("path in a name", Provisioner, &[(PR_NAME, "../x"), (PR_NAMESPACE, "ns")], true, Err(Kind::NotASecretName)),
        row("dotted namespace", Provisioner, &[(PR_NAME, "n"), (PR_NAMESPACE, "a.b")], true, Err(Kind::NotANamespace)),
        row("dotted name", Provisioner, &[(PR_NAME, "a.b"), (PR_NAMESPACE, "ns")], true, Ok(Some(("a.b", "ns")))),
        row(
            "no deprecated keys for expansion",
            ControllerExpand,
            &[("csiControllerExpandSecretName", "n"), ("csiControllerExpandSecretNamespace", "ns")],
            true,
            Ok(None),
        ),
        row("keys match exactly", NodePublish, &[("CSI.storage.k8s.io/node-publish-secret-name", "n")], true, Ok(None)),
    ]
}

fn check(rows: Vec<Row>) {
    for Row { case, kind, parameters, claim, expected } in rows {
        let got = run(kind, parameters, claim);
        let got = got
            .as_ref()
            .map(|found| found.as_ref().map(|found| (found.name.as_str(), found.namespace.as_str())))
            .map_err(kind_of);
        assert_eq!(got, expected, "{case}");
    }
}

#[test]
fn references_by_the_contract_table() {
    let rows = contract_rows();
    assert_eq!(rows.len(), 25);
    check(rows);
}

#[test]
fn lookup_order_and_tokens_beyond_the_table() {
    let rows = further_rows();
    assert_eq!(rows.len(), 19);
    check(rows);
}

#[test]
fn all_kinds_use_their_own_pair() {
    let kinds = [
        (Provisioner, "provisioner"),
        (ControllerPublish, "controller-publish"),
        (NodeStage, "node-stage"),
        (NodePublish, "node-publish"),
        (ControllerExpand, "controller-expand"),
        (NodeExpand, "node-expand"),
        (ControllerModify, "controller-modify"),
    ];
    assert_eq!(kinds.map(|(kind, _)| kind), SecretKind::ALL);
    for (kind, word) in kinds {
        let name = format!("csi.storage.k8s.io/{word}-secret-name");
        let namespace = format!("csi.storage.k8s.io/{word}-secret-namespace");
        let parameters = [(name.as_str(), "${pv.name}"), (namespace.as_str(), "ns")];
        let found = run(kind, &parameters, false).unwrap().unwrap();
        assert_eq!(found.to_string(), "ns/pvname");
        for other in SecretKind::ALL.into_iter().filter(|other| *other != kind) {
            assert_eq!(run(other, &parameters, false), Ok(None), "{other:?}");
        }
    }
}

#[test]
fn annotations_can_be_unknown_while_the_claim_is_known() {
    let values = TemplateValues {
        volume_name: "pvname",
        claim: Some(ClaimValues { namespace: "ns", name: "claim", annotations: None }),
    };
    let by_name = map(&[(PR_NAME, "${pvc.name}"), (PR_NAMESPACE, "${pvc.namespace}")]);
    assert_eq!(resolve(Provisioner, &by_name, &values).unwrap().unwrap().to_string(), "ns/claim");
    let by_annotation = map(&[(PR_NAME, "${pvc.annotations['akey']}"), (PR_NAMESPACE, "ns")]);
    assert_eq!(resolve(Provisioner, &by_annotation, &values).as_ref().map_err(kind_of), Err(Kind::Unresolved));
}

#[test]
fn errors_name_parameter_template_and_all_unresolved_tokens() {
    let error = run(Provisioner, &[(PR_NAME, "x-${zoo}-${foo}-$pv"), (PR_NAMESPACE, "ns")], true).unwrap_err();
    assert_eq!(
        error.to_string(),
        "StorageClass parameter csi.storage.k8s.io/provisioner-secret-name: \"x-${zoo}-${foo}-$pv\" has no value for foo, pv, zoo: \
         use ${pv.name}, ${pvc.namespace}, ${pvc.name}, ${pvc.annotations['KEY']}, and annotations the claim has"
    );
    let error = run(NodePublish, &[(OLD_NAME, "n")], true).unwrap_err();
    assert_eq!(
        error.to_string(),
        "StorageClass parameter csiNodePublishSecretName is given without \
         csi.storage.k8s.io/node-publish-secret-namespace: give both or neither"
    );
}
