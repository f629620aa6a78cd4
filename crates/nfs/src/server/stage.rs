//! Where an operation waits, and for what: the continuation of each operation that needs more than one step.

use super::attributes::AttributeStage;
use super::context::{Env, Flow, Input};
use super::data::{DataOperation, DataStage};
use super::directory::DirectoryStage;
use super::names::NameStage;
use super::open::OpenStage;
use super::stateful::StatefulStage;
use crate::v4::Status;

/// Where an operation waits.
#[derive(Debug)]
pub(crate) enum Stage {
    /// It wants data, and begins again once its stateid is known or there is memory.
    Begin(DataOperation),
    Data(DataStage),
    Name(NameStage),
    Attributes(AttributeStage),
    Directory(DirectoryStage),
    Open(OpenStage),
    Stateful(StatefulStage),
}

/// Goes on with an operation.
pub(crate) fn resume(env: &mut Env<'_>, stage: Stage, input: Input) -> Result<Flow, Status> {
    match stage {
        Stage::Begin(operation) => super::data::again(env, operation, input),
        Stage::Data(stage) => super::data::resume(env, stage, input),
        Stage::Name(stage) => super::names::resume(env, stage, input),
        Stage::Attributes(stage) => super::attributes::resume(env, stage, input),
        Stage::Directory(stage) => super::directory::resume(env, stage, input),
        Stage::Open(stage) => super::open::resume(env, stage, input),
        Stage::Stateful(stage) => super::stateful::resume(env, stage, input),
    }
}
