//! What clients send of parameters only once, and so must be kept for a server that has not seen it.

use crate::wire::{
    execute::{Types, rename},
    header::Header,
};

/// Types of parameters: clients send them with an execution, and afterwards only when they change.
#[derive(Debug, Default)]
pub(super) struct ParameterTypes {
    /// As they were sent last.
    sent: Vec<u8>,
    /// Counts the changes.
    version: u64,
    /// The version that the primary has.
    primary: u64,
}

impl ParameterTypes {
    /// The number of the last change; 0 when none were sent yet.
    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    /// Notes what an execution says.
    pub(super) fn note(&mut self, payload: &[u8], types: &Types) {
        let Types::Sent(place) = types else { return };
        let sent = payload.get(place.clone()).unwrap_or_default();
        if self.version == 0 || self.sent != sent {
            self.sent.clear();
            self.sent.extend_from_slice(sent);
            self.version += 1;
        }
    }

    /// What an execution lacks for a server that has `version` of the types, and where it goes.
    pub(super) fn missing(&self, version: u64, types: &Types) -> Option<(usize, &[u8])> {
        match types {
            Types::Omitted(flag) if version < self.version => Some((*flag, &self.sent)),
            _ => None,
        }
    }

    /// The same for the primary.
    pub(super) fn missing_on_primary(&self, types: &Types) -> Option<(usize, &[u8])> {
        self.missing(self.primary, types)
    }

    /// The primary has the types now.
    pub(super) const fn primary_knows(&mut self) {
        self.primary = self.version;
    }
}

/// Parameters sent ahead of the execution (COM_STMT_SEND_LONG_DATA).
#[derive(Debug)]
pub(super) enum LongData {
    /// These commands, headers included, are here, since where they will be needed is not known yet.
    Here(Vec<u8>),
    /// The primary has them.
    OnPrimary,
}

impl Default for LongData {
    fn default() -> Self {
        Self::Here(Vec::new())
    }
}

impl LongData {
    /// Whether a server of choice can get them.
    pub(super) const fn is_here(&self) -> bool {
        matches!(self, Self::Here(_))
    }

    /// Keeps a command, as long as there is room for it within `limit` bytes.
    pub(super) fn keep(&mut self, command: &[u8], limit: usize) -> bool {
        match self {
            Self::Here(kept) if kept.len() + command.len() <= limit => {
                kept.extend_from_slice(command);
                true
            }
            _ => false,
        }
    }

    /// The commands, about the statement `id`.
    pub(super) fn commands(&self, id: u32) -> Vec<Vec<u8>> {
        let mut commands = Vec::new();
        let Self::Here(kept) = self else { return commands };
        let mut rest = kept.as_slice();
        while let Some(header) = Header::peek(rest) {
            let Some((command, others)) = rest.split_at_checked(Header::LEN + header.len) else { break };
            let mut command = command.to_vec();
            rename(&mut command, id);
            commands.push(command);
            rest = others;
        }
        commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_sent_again_to_who_lacks_them() {
        let mut types = ParameterTypes::default();
        let omitted = Types::Omitted(11);
        assert_eq!(types.missing(0, &omitted), None);
        types.note(&[0, 1, 3, 0, 9], &Types::Sent(2..4));
        assert_eq!(types.missing(0, &omitted), Some((11, &[3, 0][..])));
        assert_eq!(types.missing(1, &omitted), None);
        assert_eq!(types.missing(0, &Types::Sent(2..4)), None);
        types.primary_knows();
        types.note(&[0, 1, 3, 0, 9], &Types::Sent(2..4));
        assert_eq!(types.version(), 1);
        types.note(&[0, 1, 8, 0, 9], &Types::Sent(2..4));
        assert_eq!(types.missing_on_primary(&omitted), Some((11, &[8, 0][..])));
        types.primary_knows();
        assert_eq!(types.missing_on_primary(&omitted), None);
    }

    #[test]
    fn long_data_is_kept_within_bounds_and_renamed() {
        let command = [7, 0, 0, 0, 0x18, 1, 0, 0, 0, 0, 0];
        let mut data = LongData::default();
        assert!(data.keep(&command, 22) && data.keep(&command, 22) && !data.keep(&command, 22));
        let renamed = [7, 0, 0, 0, 0x18, 9, 0, 0, 0, 0, 0];
        assert_eq!(data.commands(9), [renamed, renamed]);
        assert!(!LongData::OnPrimary.keep(&command, 22));
    }
}
