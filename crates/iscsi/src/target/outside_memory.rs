//! What a connection holds outside of buffers, in bytes: nothing that grows with what a peer does is left out of its account.

use buf::{Account, Outside, Standing};

/// What is counted of it.
#[derive(Debug, Default)]
pub(super) struct OutsideMemory {
    counted: Outside,
    /// What tables and receives were allowed before they grew.
    granted: usize,
}

impl OutsideMemory {
    /// Asks for room for tables and receives that are about to grow.
    #[must_use]
    pub(super) fn grant(&mut self, account: &mut Account, more: Standing) -> bool {
        let is_granted = account.charge_standing(more);
        if is_granted {
            self.granted = self.granted.saturating_add(more.tables).saturating_add(more.receives);
        }
        is_granted
    }

    /// The connection holds this now; its tables are all that stays, with what was granted. True if that is something else than before, which is rare.
    #[inline]
    #[must_use]
    pub(super) fn settle(&mut self, account: &mut Account, held: Outside) -> bool {
        let held = Outside { tables: held.tables.saturating_sub(self.granted), ..held };
        if held == self.counted {
            return false;
        }
        account.recount(&mut self.counted, held);
        true
    }
}

#[cfg(test)]
mod tests {
    use buf::Pool;

    use super::*;

    #[test]
    fn what_was_granted_is_counted_once() {
        let pool = Pool::new(64 << 20);
        let mut account = Account::new(&pool);
        let mut outside = OutsideMemory::default();
        assert!(outside.settle(&mut account, Outside { data: 700, tables: 1000 }));
        assert_eq!(account.held(), 1700);
        assert!(outside.grant(&mut account, Standing { tables: 3000, receives: 2000 }));
        assert!(
            !outside.settle(&mut account, Outside { data: 700, tables: 6000 }),
            "the table has grown into it"
        );
        assert_eq!(account.held(), 6700);
        assert!(outside.settle(&mut account, Outside { data: 0, tables: 6000 }));
        assert_eq!(account.held(), 6000);
    }
}
