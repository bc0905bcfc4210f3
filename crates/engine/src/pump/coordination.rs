//! Several pipelines that move one file: the messages between them, and what they need to take
//! part.

use super::{Host, Pump};
use crate::mailbox::Message;
use crate::transfer::{AfterDetach, SharedFile};
use xdfs_io::dispatch::Dispatch;
use xdfs_proto::base::{Error, ErrorKind, PipelineId};
use xdfs_proto::session::PipelineMessage;

impl<D, H> Pump<D, H>
where
    D: Dispatch,
    D::Link: Send + 'static,
    H: Host,
{
    pub(super) fn on_to_pipeline(&mut self, to: PipelineId, message: PipelineMessage) {
        if let PipelineMessage::Covered(operation) = &message {
            // This pipeline must release the stage before the coordinator may commit it.
            return self.detach(*operation, AfterDetach::Forward { to, message: message.clone() });
        }
        if !self.pipeline_message_waits(to, &message) {
            self.forward(to, message);
        }
    }

    pub(super) fn forward(&mut self, to: PipelineId, message: PipelineMessage) {
        let shared = match &message {
            PipelineMessage::Start { operation, .. } => self.shared_of(*operation),
            _ => None,
        };
        let start = match &message {
            PipelineMessage::Start { operation, .. } => Some(*operation),
            _ => None,
        };
        let post = self.mail.siblings.get(usize::from(to.0)).and_then(Option::as_ref);
        let message = Message::FromPipeline { from: self.settings.pipeline, message, shared };
        let sent = post.is_some_and(|post| post.send(message).is_ok());
        if let (false, Some(operation)) = (sent, start) {
            let error = Error::new(ErrorKind::ConnectionLost, "a pipeline of the session has ended");
            self.session.on_pipeline_message(to, PipelineMessage::Failed(operation, error));
        }
    }

    pub(super) fn on_pipeline_message(
        &mut self,
        from: PipelineId,
        message: PipelineMessage,
        shared: Option<SharedFile>,
    ) {
        let refused = match &message {
            PipelineMessage::Start { operation, .. } => {
                self.adopt_shared(*operation, shared).err().map(|error| (*operation, error))
            }
            PipelineMessage::Settled(operation, _) => {
                self.settle_participant(*operation);
                None
            }
            _ => None,
        };
        self.session.on_pipeline_message(from, message);
        if let Some((operation, error)) = refused {
            self.session.fail(operation, error);
        }
    }
}
