-- What has happened to an account's records, except new registrations: those are events themselves. It is written in the
-- transaction that makes the change.
CREATE TABLE event (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES account,
  mode text NOT NULL CONSTRAINT event_mode CHECK (mode IN ('live', 'test')),
  -- Such as donation.created; domain/events/events.ts lists them.
  type text NOT NULL,
  -- The transaction that inserted it. Events have the order of their transactions. Numbers of a sequence would not do: a
  -- transaction with a lower number can commit after one with a higher number, when a reader has already gone on.
  transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(),
  created_at timestamptz NOT NULL,
  -- What clients receive. It never changes, whatever happens to the record later.
  data json NOT NULL
);

CREATE INDEX event_feed ON event (account_id, mode, type, transaction_id, id);
-- For deleting old ones. Not of the transaction, because a search for an account's newest event would choose it.
CREATE INDEX event_age ON event (created_at);

-- Which transactions had ended at a time, recorded every night: where the events of the last 30 days begin.
CREATE TABLE event_day (
  day date PRIMARY KEY,
  recorded_at timestamptz NOT NULL,
  -- All transactions below it had ended.
  transaction_id xid8 NOT NULL
);
