-- What has happened to an account's records, except new registrations: those are events themselves. It is written in the
-- transaction that makes the change.
CREATE TABLE event (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES account,
  mode text COLLATE "C" NOT NULL CONSTRAINT event_mode CHECK (mode IN ('live', 'test')),
  -- Such as donation.created; modules/events/events.rules.ts lists them. Also ping, which the feed does not show.
  type text COLLATE "C" NOT NULL,
  -- The transaction that inserted it. Events have the order of their transactions. Numbers of a sequence would not do: a
  -- transaction with a lower number can commit after one with a higher number, when a reader has already gone on. It is 0
  -- for what was copied from another server, which is not in the feed.
  transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(),
  created_at timestamptz NOT NULL,
  -- What clients receive. It never changes, whatever happens to the record later.
  data json NOT NULL
);

CREATE INDEX event_feed ON event (account_id, mode, type, transaction_id, id);
-- For recovering the deliveries of an account.
CREATE INDEX event_recovery ON event (account_id, mode, created_at, id);
-- For deleting old ones. Not of the transaction, because a search for an account's newest event would choose it.
CREATE INDEX event_age ON event (created_at);

-- Servers that events are sent to, as signed HTTP requests.
CREATE TABLE webhook_endpoint (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES account,
  mode text COLLATE "C" NOT NULL CONSTRAINT webhook_endpoint_mode CHECK (mode IN ('live', 'test')),
  url text COLLATE "C" NOT NULL CONSTRAINT webhook_endpoint_url CHECK (length(url) BETWEEN 1 AND 4096),
  description text NOT NULL CONSTRAINT webhook_endpoint_description CHECK (length(description) <= 200),
  -- Null for all, also those of later releases.
  types text[] CONSTRAINT webhook_endpoint_types CHECK (cardinality(types) >= 1),
  -- What deliveries are signed with. It is needed in plain text.
  secret text COLLATE "C" NOT NULL,
  -- The one that it has replaced, which also signs until a time.
  previous_secret text COLLATE "C",
  previous_secret_until timestamptz,
  -- Of the request that created it. A repeated request gets the endpoint with its secret.
  idempotency_key text COLLATE "C",
  created_at timestamptz NOT NULL,
  -- The first failed attempt since the last one that succeeded, since the URL was changed or since the endpoint was enabled,
  -- and how the last attempt has failed.
  failing_since timestamptz,
  last_error text,
  disabled_at timestamptz,
  disabled_reason text
    CONSTRAINT webhook_endpoint_disabled_reason CHECK (disabled_reason IN ('requested', 'gone', 'failing')),
  CONSTRAINT webhook_endpoint_disabled CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL)),
  CONSTRAINT webhook_endpoint_previous_secret CHECK ((previous_secret IS NULL) = (previous_secret_until IS NULL)),
  CONSTRAINT webhook_endpoint_failing CHECK ((failing_since IS NULL) = (last_error IS NULL))
);

-- Also for what is recorded with every event: the endpoints that receive it.
CREATE INDEX webhook_endpoint_owner ON webhook_endpoint (account_id, mode);

-- An event on its way to an endpoint. It is inserted in the transaction that records the event, and deleted with the event.
CREATE TABLE webhook_delivery (
  event_id uuid NOT NULL REFERENCES event ON DELETE CASCADE,
  -- Not a reference: a transaction that records an event must not fail because an endpoint is deleted meanwhile.
  endpoint_id uuid NOT NULL,
  -- The transaction of the event when it was recorded. It is the first part of the id that clients see.
  transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(),
  state text NOT NULL DEFAULT 'pending'
    CONSTRAINT webhook_delivery_state CHECK (state IN ('pending', 'delivered', 'failed')),
  -- Since it was recorded, or last retried or recovered.
  attempts integer NOT NULL DEFAULT 0,
  -- How the last attempt has ended, as clients see it.
  last_attempt json,
  created_at timestamptz NOT NULL,
  -- When the next attempt is due. While a worker makes one, when its lease ends: then the attempt is made again.
  due_at timestamptz,
  PRIMARY KEY (event_id, endpoint_id),
  CONSTRAINT webhook_delivery_due CHECK ((due_at IS NOT NULL) = (state = 'pending'))
);

-- In the order in which deliveries are made: many may be due at the same time.
CREATE INDEX webhook_delivery_pending ON webhook_delivery (endpoint_id, due_at, event_id) WHERE state = 'pending';
CREATE INDEX webhook_delivery_list ON webhook_delivery (endpoint_id, created_at, event_id);
-- The few whose last attempt has failed.
CREATE INDEX webhook_delivery_failed ON webhook_delivery (endpoint_id, created_at, event_id)
  WHERE state <> 'delivered' AND attempts > 0;
