//! What two ends agree on while a connection is set up: markers, CRCs, how many RDMA Reads, and how readiness is shown (RFC 5044 §7.1, RFC 6581 §9).

use verbs::PrivateData;

use super::frame::{Enhanced, Frame, FrameKind, Rtr, RtrKinds};
use super::marker::Markers;

/// The revision of MPA that this side speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revision {
    /// RFC 5044's: nothing is said of RDMA Reads, and the initiator sends first.
    One,
    /// RFC 6581's, and the first with peers that speak it.
    Two,
}

/// What this side offers and wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The revision to ask for, or the highest to answer.
    pub revision: Revision,
    /// The peer is to send markers.
    pub markers: bool,
    /// Both are to use CRCs; they do too when the peer says so.
    pub crc: bool,
    /// Ways in which an initiator shows readiness without its consumer, and which a responder accepts. An initiator that has none leaves the first message to its
    /// consumer.
    pub rtr: RtrKinds,
    /// RDMA Reads of the peer that are served at a time.
    pub ird: u16,
    /// RDMA Reads to have under way at a time.
    pub ord: u16,
}

/// What was agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Markers are in what this side receives.
    pub markers_in: Markers,
    /// Markers are in what this side sends.
    pub markers_out: Markers,
    /// FPDUs have CRCs.
    pub crc: bool,
    /// RDMA Reads of the peer that are served at a time.
    pub ird: u16,
    /// RDMA Reads of this side under way at a time.
    pub ord: u16,
    /// The initiator's first message comes by itself.
    pub rtr: Option<Rtr>,
}

/// Why there is no agreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A revision that this side does not speak, or another than it asked for.
    Revision,
    /// The reply is not an enhanced one, though the request was.
    NotEnhanced,
    /// The responder wants more RDMA Reads under way than the initiator serves. It is told so with this agreement.
    InsufficientIrd(Terms),
    /// The responder accepts no way to show readiness that the initiator has; likewise.
    NoMatchingRtr(Terms),
}

impl Offer {
    /// The initiator's request.
    pub fn request(&self, private_data: PrivateData) -> Frame {
        let enhanced = match self.revision {
            Revision::One => None,
            Revision::Two => Some(Enhanced {
                peer_to_peer: self.rtr != RtrKinds::default(),
                rtr: self.rtr,
                ird: self.ird,
                ord: self.ord,
            }),
        };
        let revision = if enhanced.is_some() { 2 } else { 1 };
        let (markers, crc) = (self.markers, self.crc);
        Frame { kind: FrameKind::Request, markers, crc, reject: false, revision, enhanced, private_data }
    }

    /// What a responder agrees to.
    ///
    /// # Errors
    /// [`Refusal::Revision`]: the connection is closed without an answer (RFC 5044 §7.1.1).
    pub fn answer(&self, request: &Frame) -> Result<Terms, Refusal> {
        let highest = match self.revision {
            Revision::One => 1,
            Revision::Two => 2,
        };
        if request.revision == 0 || request.revision > highest {
            return Err(Refusal::Revision);
        }
        let mut terms = self.terms(request);
        if let Some(theirs) = request.enhanced {
            let rtr = self.accepted(theirs);
            // An initiator that shows readiness by a Read needs it served.
            let least = u16::from(rtr == Some(Rtr::Read));
            terms.ord = negotiated(theirs.ird, self.ord);
            terms.ird = negotiated(theirs.ord, self.ird).max(least);
            terms.rtr = rtr;
        }
        Ok(terms)
    }

    /// The way to show readiness, where set-up is peer to peer: the best of what both have.
    fn accepted(&self, request: Enhanced) -> Option<Rtr> {
        if request.peer_to_peer { self.rtr.and(request.rtr).preferred() } else { None }
    }

    /// The responder's reply to a request, after [`Offer::answer`].
    pub fn reply(&self, request: &Frame, terms: Terms) -> Frame {
        let enhanced = request.enhanced.map(|theirs| Enhanced {
            peer_to_peer: theirs.peer_to_peer,
            // Without a common way, ours are named: the initiator says that none matches.
            rtr: match (theirs.peer_to_peer, terms.rtr) {
                (true, Some(rtr)) => RtrKinds::only(rtr),
                (true, None) => self.rtr,
                (false, _) => RtrKinds::default(),
            },
            ird: terms.ird,
            ord: terms.ord,
        });
        Frame {
            kind: FrameKind::Reply,
            markers: self.markers,
            crc: terms.crc,
            reject: false,
            revision: request.revision,
            enhanced,
            private_data: PrivateData::NONE,
        }
    }

    /// What the initiator has of a reply that does not refuse.
    ///
    /// # Errors
    /// There is no agreement.
    pub fn conclude(&self, reply: &Frame) -> Result<Terms, Refusal> {
        let asked = if self.revision == Revision::Two { 2 } else { 1 };
        if reply.revision != asked {
            return Err(Refusal::Revision);
        }
        let mut terms = self.terms(reply);
        if self.revision == Revision::One {
            return Ok(terms);
        }
        let theirs = reply.enhanced.ok_or(Refusal::NotEnhanced)?;
        terms.ord = negotiated(theirs.ird, self.ord);
        if theirs.ord != Enhanced::UNNEGOTIATED && theirs.ord > self.ird {
            return Err(Refusal::InsufficientIrd(terms));
        }
        if self.rtr != RtrKinds::default() {
            let common = if theirs.peer_to_peer { self.rtr.and(theirs.rtr) } else { RtrKinds::default() };
            terms.rtr = common.preferred();
            if terms.rtr.is_none() {
                return Err(Refusal::NoMatchingRtr(terms));
            }
            if terms.rtr == Some(Rtr::Read) && theirs.ird == 0 {
                return Err(Refusal::InsufficientIrd(terms));
            }
        }
        Ok(terms)
    }

    /// What needs no negotiation: each end says what it wants to receive, and either can ask for CRCs.
    fn terms(&self, peer: &Frame) -> Terms {
        Terms {
            markers_in: Markers::of_flag(self.markers),
            markers_out: Markers::of_flag(peer.markers),
            crc: self.crc || peer.crc,
            ird: self.ird,
            ord: self.ord,
            rtr: None,
        }
    }
}

/// The lower of what one side says and the other can; alone what it can if nothing is said.
fn negotiated(said: u16, own: u16) -> u16 {
    if said == Enhanced::UNNEGOTIATED { own } else { said.min(own) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFER: Offer = Offer {
        revision: Revision::Two,
        markers: false,
        crc: false,
        rtr: RtrKinds { write: false, read: false, zero_length: false },
        ird: 128,
        ord: 128,
    };

    /// What both ends have of two offers.
    fn agree(initiator: &Offer, responder: &Offer) -> Result<[Terms; 2], Refusal> {
        let request = initiator.request(PrivateData::NONE);
        let answered = responder.answer(&request)?;
        Ok([initiator.conclude(&responder.reply(&request, answered))?, answered])
    }

    #[test]
    fn each_end_says_what_it_receives_and_either_asks_for_crcs() {
        for revision in [Revision::One, Revision::Two] {
            for bits in 0..16_u8 {
                let bit = |at: u8| bits & (1 << at) != 0;
                let near = Offer { revision, markers: bit(0), crc: bit(1), ..OFFER };
                let far = Offer { markers: bit(2), crc: bit(3), ..OFFER };
                let [ours, theirs] = agree(&near, &far).unwrap();
                let markers = |at| Markers::of_flag(bit(at));
                assert_eq!((ours.markers_in, ours.markers_out), (markers(0), markers(2)));
                assert_eq!((theirs.markers_in, theirs.markers_out), (markers(2), markers(0)));
                assert_eq!((ours.crc, theirs.crc), (bit(1) || bit(3), bit(1) || bit(3)));
            }
        }
    }

    #[test]
    fn reads_under_way_are_what_both_can() {
        let near = Offer { ird: 128, ord: 0, ..OFFER };
        let [ours, theirs] = agree(&near, &Offer { ird: 16, ord: 200, ..OFFER }).unwrap();
        assert_eq!((ours.ord, theirs.ird, theirs.ord), (0, 0, 128));
        let near = Offer { ird: 4, ord: 64, ..OFFER };
        let [ours, theirs] = agree(&near, &Offer { ird: 16, ord: 2, ..OFFER }).unwrap();
        assert_eq!((ours.ord, ours.ird, theirs.ird, theirs.ord), (16, 4, 16, 2));
        // Who leaves the numbers to its consumer gets ours.
        let mut request = near.request(PrivateData::NONE);
        let unsaid = Enhanced::UNNEGOTIATED;
        request.enhanced = request.enhanced.map(|said| Enhanced { ird: unsaid, ord: unsaid, ..said });
        let terms = OFFER.answer(&request).unwrap();
        assert_eq!((terms.ird, terms.ord), (128, 128));
    }

    #[test]
    fn readiness_is_shown_in_a_way_that_both_have() {
        for rtr in [Rtr::Write, Rtr::Read, Rtr::ZeroLength] {
            let near = Offer { rtr: RtrKinds::only(rtr), ord: 0, ..OFFER };
            let far = Offer { rtr: RtrKinds::ALL, ..OFFER };
            let [ours, theirs] = agree(&near, &far).unwrap();
            assert_eq!((ours.rtr, theirs.rtr), (Some(rtr), Some(rtr)));
            assert_eq!(theirs.ird, u16::from(rtr == Rtr::Read), "a Read that shows readiness is served");
        }
        let near = Offer { rtr: RtrKinds::only(Rtr::Read), ..OFFER };
        let far = Offer { rtr: RtrKinds::only(Rtr::Write), ..OFFER };
        assert!(matches!(agree(&near, &far), Err(Refusal::NoMatchingRtr(_))));
        // Who has no way of its own needs none.
        assert_eq!(agree(&OFFER, &far).map(|[ours, _]| ours.rtr), Ok(None));
    }

    #[test]
    fn a_responder_that_wants_more_reads_than_are_served_is_refused() {
        let mut reply =
            OFFER.reply(&OFFER.request(PrivateData::NONE), OFFER.terms(&OFFER.request(PrivateData::NONE)));
        reply.enhanced = reply.enhanced.map(|said| Enhanced { ord: 129, ..said });
        assert!(matches!(OFFER.conclude(&reply), Err(Refusal::InsufficientIrd(_))));
        reply.enhanced = reply.enhanced.map(|said| Enhanced { ord: Enhanced::UNNEGOTIATED, ..said });
        assert!(OFFER.conclude(&reply).is_ok());
    }

    #[test]
    fn revisions_must_match() {
        let one = Offer { revision: Revision::One, ..OFFER };
        assert_eq!(agree(&OFFER, &one).err(), Some(Refusal::Revision));
        assert!(agree(&one, &OFFER).is_ok() && agree(&one, &one).is_ok());
        let mut request = OFFER.request(PrivateData::NONE);
        for revision in [0, 3, 255] {
            request.revision = revision;
            assert_eq!(OFFER.answer(&request).err(), Some(Refusal::Revision));
        }
        let mut reply = OFFER.reply(&request, OFFER.terms(&request));
        reply.revision = 1;
        assert_eq!(OFFER.conclude(&reply).err(), Some(Refusal::Revision));
        (reply.revision, reply.enhanced) = (2, None);
        assert_eq!(OFFER.conclude(&reply).err(), Some(Refusal::NotEnhanced));
    }
}
