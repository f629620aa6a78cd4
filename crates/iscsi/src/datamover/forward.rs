//! What the connections of every datamover hand on to the roles and transports in them.
//!
//! They are types of their own around a generic connection, whose calls they repeat: these macros do so once for all datamovers.

/// A connection of `$role` that is a [`protocol::Connection`] because what it has in it is one.
macro_rules! forward_connection {
    ([$($generics:tt)*] $name:ty, $role:ident, $staging:expr) => {
        impl $($generics)* protocol::Connection for $name {
            type Input = $role::Input;
            type Action = $role::Action;
            const STAGING: usize = $staging;

            fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
                self.0.handle_bytes(now, bytes)
            }

            fn take_placement(&mut self) -> Option<Placement> {
                self.0.take_placement()
            }

            fn handle_placed(&mut self, now: Instant, placement: Placement) {
                self.0.handle_placed(now, placement);
            }

            fn handle_input(&mut self, now: Instant, input: Self::Input) {
                Connection::handle_input(&mut self.0, now, input);
            }

            fn handle_transmitted(&mut self, now: Instant, bytes: usize) {
                self.0.handle_transmitted(now, bytes);
            }

            fn handle_timeout(&mut self, now: Instant) {
                self.0.handle_timeout(now);
            }

            fn handle_memory(&mut self, now: Instant) {
                Connection::handle_memory(&mut self.0, now);
            }

            fn handle_ended(&mut self, now: Instant, how: Ended) {
                Connection::handle_ended(&mut self.0, now, how);
            }

            fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
                self.0.poll_transmit(now, send);
            }

            fn poll_action(&mut self) -> Option<Self::Action> {
                Connection::poll_action(&mut self.0)
            }

            fn poll_timeout(&self) -> Option<Instant> {
                self.0.poll_timeout()
            }

            fn wants_bytes(&mut self) -> bool {
                self.0.wants_bytes()
            }

            fn is_established(&self) -> bool {
                Connection::is_established(&self.0)
            }

            fn awaits_memory(&self) -> bool {
                Connection::awaits_memory(&self.0)
            }

            fn poll_close(&self) -> Option<CloseReason> {
                self.0.poll_close()
            }
        }
    };
}

/// What a driver asks a target, whatever carries it.
macro_rules! forward_target {
    () => {
        /// See [`Target::state`].
        pub fn state(&self) -> State {
            self.0.upper().state()
        }

        /// See [`Target::poll_notice`].
        pub fn poll_notice(&mut self) -> Option<Notice> {
            self.0.upper_mut().poll_notice()
        }

        /// See [`Target::parties`].
        pub fn parties(&self) -> Parties {
            self.0.upper().parties()
        }

        /// See [`Target::uses`].
        pub fn uses(&self, volume: VolumeId) -> bool {
            self.0.upper().uses(volume)
        }

        /// See [`Target::is_withdrawn`].
        pub fn is_withdrawn(&self) -> bool {
            self.0.upper().is_withdrawn()
        }

        /// See [`Target::reports_changes`].
        pub fn reports_changes(&self) -> bool {
            self.0.upper().reports_changes()
        }

        /// See [`Target::outstanding`].
        pub fn outstanding(&self) -> usize {
            self.0.upper().outstanding()
        }
    };
}

pub(crate) use {forward_connection, forward_target};
