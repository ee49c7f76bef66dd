-- What has happened to an account's records, except new registrations: those are events themselves. It is written in the
-- transaction that makes the change.
CREATE TABLE event (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES account,
  mode text COLLATE "C" NOT NULL CONSTRAINT event_mode CHECK (mode IN ('live', 'test')),
  -- Such as donation.created; modules/events/events.rules.ts lists them.
  type text COLLATE "C" NOT NULL,
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

-- Servers that events are sent to, as signed HTTP requests.
CREATE TABLE webhook_endpoint (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES account,
  mode text COLLATE "C" NOT NULL CONSTRAINT webhook_endpoint_mode CHECK (mode IN ('live', 'test')),
  url text COLLATE "C" NOT NULL CONSTRAINT webhook_endpoint_url CHECK (length(url) BETWEEN 1 AND 4096),
  description text NOT NULL CONSTRAINT webhook_endpoint_description CHECK (length(description) <= 200),
  -- Null for all, also those of later releases.
  types text[] CONSTRAINT webhook_endpoint_types CHECK (cardinality(types) >= 1),
  -- Of the request that created it. A repeated request gets the endpoint with its secret.
  idempotency_key text COLLATE "C",
  created_at timestamptz NOT NULL,
  -- The first failed attempt since the last one that succeeded, since the URL was changed or since the endpoint was enabled.
  failing_since timestamptz,
  disabled_at timestamptz,
  disabled_reason text
    CONSTRAINT webhook_endpoint_disabled_reason CHECK (disabled_reason IN ('requested', 'gone', 'failing')),
  -- Deleted endpoints leave the table when their deliveries have been deleted, because a transaction that records an event
  -- may refer to them.
  deleted_at timestamptz,
  CONSTRAINT webhook_endpoint_disabled CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL))
);

-- Also for what is recorded with every event: the endpoints that receive it. Two with one URL would receive all twice.
CREATE UNIQUE INDEX webhook_endpoint_owner ON webhook_endpoint (account_id, mode, url)
  WHERE deleted_at IS NULL;

CREATE INDEX webhook_endpoint_deleted ON webhook_endpoint (deleted_at) WHERE deleted_at IS NOT NULL;

-- What deliveries are signed with. It is needed in plain text; the role of DATABASE_READER_URL may not read it.
CREATE TABLE webhook_secret (
  endpoint_id uuid NOT NULL REFERENCES webhook_endpoint,
  secret text COLLATE "C" NOT NULL,
  created_at timestamptz NOT NULL,
  -- For a secret that was replaced: until then it still signs.
  expires_at timestamptz,
  PRIMARY KEY (endpoint_id, secret)
);

CREATE UNIQUE INDEX webhook_secret_current ON webhook_secret (endpoint_id) WHERE expires_at IS NULL;

-- An event on its way to an endpoint. It is inserted in the transaction that records the event.
CREATE TABLE webhook_delivery (
  endpoint_id uuid NOT NULL REFERENCES webhook_endpoint,
  -- Not a reference: a ping is no row of the table event, and an event may be deleted earlier.
  event_id uuid NOT NULL,
  -- The transaction of the event. It is the first part of the id that clients see.
  transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(),
  type text NOT NULL,
  occurred_at timestamptz NOT NULL,
  -- What receivers get: a selection of the event's data.
  data json NOT NULL,
  state text NOT NULL DEFAULT 'pending'
    CONSTRAINT webhook_delivery_state CHECK (state IN ('pending', 'delivered', 'failed')),
  attempts integer NOT NULL DEFAULT 0,
  -- Those before the delivery was last retried or recovered: the schedule begins again there.
  earlier_attempts integer NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL,
  -- When the next attempt is due.
  due_at timestamptz,
  -- A worker is making an attempt until then, or has ended without its result.
  leased_until timestamptz,
  PRIMARY KEY (endpoint_id, event_id),
  CONSTRAINT webhook_delivery_due CHECK ((due_at IS NOT NULL) = (state = 'pending'))
);

-- In the order in which deliveries are made: many may be due at the same time.
CREATE INDEX webhook_delivery_pending ON webhook_delivery (endpoint_id, due_at, transaction_id, event_id)
  WHERE state = 'pending';
CREATE INDEX webhook_delivery_list ON webhook_delivery (endpoint_id, created_at, event_id);
-- A list of the few that failed. One of pending deliveries would be written with each delivery, and claims might choose it.
CREATE INDEX webhook_delivery_failed ON webhook_delivery (endpoint_id, created_at, event_id)
  WHERE state = 'failed';

-- A request to an endpoint.
CREATE TABLE webhook_attempt (
  endpoint_id uuid NOT NULL,
  event_id uuid NOT NULL,
  number integer NOT NULL,
  started_at timestamptz NOT NULL,
  duration_ms integer NOT NULL,
  -- Of the response; null if none arrived.
  status smallint,
  -- Why it failed; null if it succeeded.
  error text,
  -- The first KiB of the response's body.
  response text,
  PRIMARY KEY (endpoint_id, event_id, number),
  FOREIGN KEY (endpoint_id, event_id) REFERENCES webhook_delivery ON DELETE CASCADE
);
