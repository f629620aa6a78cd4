//! The workspace as tidy sees it: the files that git knows or would add, and what `cargo metadata` says of crates and dependencies.
//!
//! Rules get this model and touch no disk, so that their tests can plant any text and any dependency.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::tidy::source::Source;

/// The folder of the workspace: the parent of this crate's.
pub(crate) fn root() -> Result<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_path_buf)
        .context("xtask lies outside a workspace")
}

/// A file of the project, with its path from the root.
#[derive(Debug)]
pub(crate) struct TextFile {
    /// Path from the root of the workspace, with forward slashes.
    pub(crate) path: String,
    /// The whole text.
    pub(crate) text: String,
    /// The text as Rust, if the name ends in `.rs`.
    pub(crate) source: Option<Source>,
}

impl TextFile {
    /// A file from its path and text.
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let (path, text) = (path.into(), text.into());
        let mut file = Self { path, text, source: None };
        if file.ends_in("rs") {
            file.source = Some(Source::new(&file.text));
        }
        file
    }

    /// Whether the name has this ending.
    pub(crate) fn ends_in(&self, ending: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|own| own == ending)
    }

    /// Whether this is test code as a whole: under `tests/`, `benches/` or `examples/`, or a module file named for tests.
    pub(crate) fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let in_test_folder =
            self.path.split('/').any(|part| matches!(part, "tests" | "benches" | "examples"));
        in_test_folder || name == "tests.rs" || name.ends_with("_tests.rs")
    }
}

/// How one crate depends on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In `[dependencies]` or `[build-dependencies]`: part of the product.
    Product,
    /// In `[dev-dependencies]`: tests only.
    Test,
}

/// A line under `[dependencies]`.
#[derive(Debug, Clone)]
pub(crate) struct Dependency {
    /// The package's name.
    pub(crate) name: String,
    /// Product or test.
    pub(crate) kind: Kind,
    /// The features asked for by name.
    pub(crate) features: Vec<String>,
    /// Whether it is a crate of this workspace.
    pub(crate) ours: bool,
}

/// A crate of the workspace.
#[derive(Debug)]
pub(crate) struct Crate {
    /// The package's name, which is its folder's.
    pub(crate) name: String,
    /// Its manifest, from the root of the workspace.
    pub(crate) manifest: String,
    /// Its direct dependencies.
    pub(crate) dependencies: Vec<Dependency>,
}

/// All that the rules look at.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    /// Every text file of the project.
    pub(crate) files: Vec<TextFile>,
    /// Paths of the files that are no text, such as pictures.
    pub(crate) others: Vec<String>,
    /// Every crate of the workspace.
    pub(crate) crates: Vec<Crate>,
    /// The resolved product dependencies of every package, ours and foreign, by name.
    pub(crate) graph: BTreeMap<String, Vec<String>>,
}

impl Workspace {
    /// Reads the workspace this program was built from.
    pub(crate) fn load() -> Result<Self> {
        let root = root()?;
        let metadata = metadata(&root)?;
        let (files, others) = files(&root)?;
        Ok(Self { files, others, crates: metadata.crates(&root), graph: metadata.graph() })
    }

    /// The file at a path.
    pub(crate) fn file(&self, path: &str) -> Option<&TextFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The Rust files under a folder, with their sources.
    pub(crate) fn rust_under<'a>(
        &'a self,
        folder: &'a str,
    ) -> impl Iterator<Item = (&'a TextFile, &'a Source)> {
        self.files
            .iter()
            .filter(move |file| file.path.starts_with(folder))
            .filter_map(|file| file.source.as_ref().map(|source| (file, source)))
    }
}

/// The text files, and the paths of the others.
fn files(root: &Path) -> Result<(Vec<TextFile>, Vec<String>)> {
    let listing = output(root, "git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    let (mut files, mut others) = (Vec::new(), Vec::new());
    for path in listing.split('\0').filter(|path| !path.is_empty()) {
        // A file that was deleted but not yet committed is listed and absent; one that is no UTF-8 is no text.
        match std::fs::read_to_string(root.join(path)) {
            Ok(text) => files.push(TextFile::new(path, text)),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => others.push(path.to_owned()),
            Err(_) => {}
        }
    }
    Ok((files, others))
}

fn metadata(root: &Path) -> Result<Metadata> {
    let json = output(root, env!("CARGO"), &["metadata", "--format-version", "1", "--locked"])?;
    serde_json::from_str(&json).context("cargo metadata printed something else than its format 1")
}

fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).current_dir(root).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        bail!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).with_context(|| format!("{program} printed no UTF-8"))
}

/// The part of `cargo metadata` that we use.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Requirement>,
}

#[derive(Deserialize)]
struct Requirement {
    name: String,
    kind: Option<String>,
    features: Vec<String>,
    path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

impl Metadata {
    fn crates(&self, root: &Path) -> Vec<Crate> {
        let members = self.packages.iter().filter(|package| self.workspace_members.contains(&package.id));
        members
            .map(|package| Crate {
                name: package.name.clone(),
                manifest: relative(root, &package.manifest_path),
                dependencies: package.dependencies.iter().map(Requirement::to_dependency).collect(),
            })
            .collect()
    }

    fn graph(&self) -> BTreeMap<String, Vec<String>> {
        let names: BTreeMap<&str, &str> =
            self.packages.iter().map(|package| (package.id.as_str(), package.name.as_str())).collect();
        let name = |id: &str| names.get(id).copied().unwrap_or_default().to_owned();
        let mut graph: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for node in &self.resolve.nodes {
            let product =
                node.deps.iter().filter(|edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none()));
            graph.entry(name(&node.id)).or_default().extend(product.map(|edge| name(&edge.pkg)));
        }
        graph
    }
}

impl Requirement {
    fn to_dependency(&self) -> Dependency {
        Dependency {
            name: self.name.clone(),
            kind: if self.kind.as_deref() == Some("dev") { Kind::Test } else { Kind::Product },
            features: self.features.clone(),
            ours: self.path.is_some(),
        }
    }
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}
