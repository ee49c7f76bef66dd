-- Failed usage that a person has closed for good: the processor does not have it and shall not get it.
ALTER TABLE meter_event
  DROP CONSTRAINT meter_event_state,
  ADD CONSTRAINT meter_event_state CHECK (
    state IN (
      'sealed', 'sending', 'delivered', 'void', 'held', 'rejected', 'expired', 'blocked', 'superseded', 'waived'
    )
  );
