-- For searching words inside names (pg_trgm) in an index that also holds the account (btree_gin).
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE EXTENSION IF NOT EXISTS btree_gin;

-- The hash of an idempotency key with its scope. No operation contains a slash.
CREATE FUNCTION idempotency_key_hash(secret bytea, account_id uuid, mode text, operation text, key text) RETURNS bytea
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN sha256(secret || text_digest(account_id::text || '/' || mode || '/' || operation || '/' || key));

-- The idempotency keys of all writes, for ever. The primary key decides which of several concurrent requests with a key
-- writes. It is the hash alone, so that the planner can only look a key up by it (ADR 102).
CREATE TABLE idempotency_key (
  key_hash bytea PRIMARY KEY CONSTRAINT idempotency_key_hash CHECK (length(key_hash) = 32),
  -- No reference, as in registrations.
  account_id uuid NOT NULL,
  mode text COLLATE "C" NOT NULL CONSTRAINT idempotency_key_mode CHECK (mode IN ('live', 'test')),
  operation text COLLATE "C" NOT NULL CONSTRAINT idempotency_key_operation CHECK (
    operation IN (
      'plant', 'plastic', 'donate', 'refund', 'topup', 'refund_plant', 'refund_plastic', 'refund_donate', 'operator_refund'
    )
  ),
  -- The registration, the donation or the refund that the write recorded; of the refund of a donation, the donation. Null
  -- for a store's refund, which may change several records.
  record_id uuid,
  -- SHA-256 of a store's request. Null once it is erased, because personal data could be guessed from it, for an imported
  -- key, and in organizations' writes: then any request repeats the write.
  request_hash bytea CONSTRAINT idempotency_key_request_hash CHECK (length(request_hash) = 32),
  -- The first response to a store's write, replayed byte for byte. Only successful responses are stored. Null once it is
  -- erased, for an imported key, and in organizations' writes: then it follows from the record or the repeated request.
  response_body text,
  -- Of a store's write, the time of its record or of its refunds, by which an erasure finds it.
  created_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT idempotency_key_erased CHECK (response_body IS NOT NULL OR request_hash IS NULL)
);

-- For erasing what follows from requests.
CREATE INDEX idempotency_key_personal ON idempotency_key (created_at) WHERE request_hash IS NOT NULL;

-- The id that a record was imported with, and its owner. The kind of a donation is 'donation'.
CREATE FUNCTION imported_id_digest(account_id uuid, mode text, kind text, imported_id text) RETURNS bytea
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN text_digest(account_id::text || '/' || mode || '/' || kind || '/' || imported_id);

-- Numbers the statements that record registrations with usage.
CREATE SEQUENCE usage_batch AS bigint;

-- One impact action. A refund increases refunded_count; the count never changes.
CREATE TABLE registration (
  id uuid PRIMARY KEY,
  -- No reference: what inserts a registration adds to a total of the account, which has one. Checking another would lock
  -- the account's row for each registration.
  account_id uuid NOT NULL,
  mode text COLLATE "C" NOT NULL CONSTRAINT registration_mode CHECK (mode IN ('live', 'test')),
  kind text COLLATE "C" NOT NULL CONSTRAINT registration_kind CHECK (kind IN ('tree', 'bottle')),
  -- At most 2^53 - 1, which JSON represents exactly.
  count bigint NOT NULL CONSTRAINT registration_count CHECK (count BETWEEN 1 AND 9007199254740991),
  fractional_count double precision NOT NULL DEFAULT 0,
  refunded_count bigint NOT NULL DEFAULT 0
    CONSTRAINT registration_refunded_count CHECK (refunded_count BETWEEN 0 AND count),
  created_at timestamptz NOT NULL,
  -- As the client sent it; null in stores' registrations. The table idempotency_key decides which keys are known.
  idempotency_key text,
  attribution text NOT NULL DEFAULT '',
  metadata jsonb NOT NULL DEFAULT '{}',
  -- The length that the registration's JSON in a list does not exceed, which bounds how many are read at a time. Metadata
  -- can be longer than what was sent, because jsonb writes 1e300 as 301 digits. The default is for a registration without
  -- imported id, key, attribution and metadata, as stores' are.
  json_bytes integer NOT NULL DEFAULT 260,
  -- The planting order that a tree registration joins when it is inserted, and the number of its part of the order. The
  -- order's row in planting_order follows when the order is created; until then, the trees are not ordered. Null if another
  -- system has arranged the planting. There is no foreign key, because there is no row yet.
  planting_order_id integer,
  tree_order_id bigint,
  -- How many trees the order has of it. Null while none was refunded since the order was created: all that remain.
  ordered_count bigint,
  -- The id that another system has shown for the registration's part of its order.
  tree_order_public_id text,
  -- The customer, the shop's order and the price, only of stores' registrations.
  customer_name text,
  customer_email text,
  customer_id text,
  order_id text,
  notes text,
  -- The price that was paid for one unit, 0 in test mode. A reversal returns this price, not the current one.
  unit_price_cents bigint CONSTRAINT registration_unit_price CHECK (unit_price_cents >= 0),
  -- The id in the system that the registration was imported from. Clients see it instead of the id.
  imported_id text COLLATE "C" CONSTRAINT registration_imported_id_length CHECK (length(imported_id) BETWEEN 1 AND 64),
  -- The statement that recorded it. With the stream and the second, it leads to the usage fact that counts it. Null if it
  -- has no usage, because it was imported or paid from a store's balance.
  usage_batch bigint,
  -- The transaction that inserted it, which places it among the account's events.
  transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id()
);

-- A page of the feed sorts the registrations of each transaction by id. If statistics of a few registrations said that one
-- transaction had recorded all, sorting the whole table would seem as cheap, also when it has grown.
ALTER TABLE registration ALTER COLUMN transaction_id SET (n_distinct = -0.1);

-- Of one expression, so that the planner can only look an imported id up by it (ADR 102).
CREATE UNIQUE INDEX registration_imported_id
  ON registration (imported_id_digest(account_id, mode, kind, imported_id)) WHERE imported_id IS NOT NULL;
CREATE INDEX registration_listing ON registration (account_id, mode, kind, created_at, id);
CREATE INDEX registration_attribution
  ON registration (account_id, mode, kind, text_digest(attribution), created_at, id) WHERE attribution <> '';

-- The registrations that are events: those of organizations that were not imported. Not all imported ones have an id of
-- the other system, but none has usage.
CREATE INDEX registration_feed ON registration (account_id, mode, transaction_id) WHERE usage_batch IS NOT NULL;

CREATE INDEX registration_planting_order ON registration (planting_order_id) WHERE planting_order_id IS NOT NULL;

-- Indexes of stores' registrations only.
CREATE INDEX registration_order ON registration
  (account_id, mode, kind, order_digest(order_id), created_at, id) WHERE order_id IS NOT NULL;
CREATE INDEX registration_customer_email ON registration
  (account_id, mode, kind, text_digest(folded_text(customer_email)), created_at, id) WHERE customer_email IS NOT NULL;
CREATE INDEX registration_customer_id ON registration
  (account_id, mode, kind, text_digest(trimmed_text(customer_id)), created_at, id) WHERE customer_id IS NOT NULL;
CREATE INDEX registration_customer_name ON registration
  USING gin (account_id, folded_text(customer_name) gin_trgm_ops) WHERE customer_name IS NOT NULL;
-- Those with only a name, for the export and erasure of a customer.
CREATE INDEX registration_only_name ON registration (account_id, mode, kind, text_digest(folded_text(customer_name)))
  WHERE customer_name IS NOT NULL AND customer_id IS NULL AND customer_email IS NULL;
CREATE INDEX registration_reversible ON registration
  (account_id, mode, kind, created_at, id) WHERE unit_price_cents IS NOT NULL AND refunded_count < count;
-- Evidence of a store shows the newest tree in some planting orders.
CREATE INDEX registration_ordered ON registration (planting_order_id, created_at, id)
  WHERE planting_order_id IS NOT NULL AND unit_price_cents IS NOT NULL AND refunded_count < count;
-- The planner ignores the statistics of partial indexes.
CREATE STATISTICS registration_attributions ON text_digest(attribution) FROM registration;
CREATE STATISTICS registration_orders ON order_digest(order_id) FROM registration;
CREATE STATISTICS registration_customer_emails ON text_digest(folded_text(customer_email)) FROM registration;
CREATE STATISTICS registration_customer_names ON text_digest(folded_text(customer_name)) FROM registration;
CREATE STATISTICS registration_customer_ids ON text_digest(trimmed_text(customer_id)) FROM registration;

-- Totals of registered minus refunded units, updated in the transaction that changes them. The period is 'all' or a
-- month in UTC, YYYY-MM.
CREATE TABLE impact_total (
  account_id uuid NOT NULL REFERENCES account,
  mode text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  period text COLLATE "C" NOT NULL CONSTRAINT impact_total_period CHECK (period = 'all' OR period ~ '^\d{4}-\d{2}$'),
  total bigint NOT NULL CONSTRAINT impact_total_safe CHECK (total BETWEEN 0 AND 9007199254740991),
  PRIMARY KEY (account_id, mode, kind, period)
) WITH (fillfactor = 50);

-- For the sum of all accounts. Updates change none of its columns, so they stay in the table (HOT).
CREATE INDEX impact_total_trees ON impact_total (mode, account_id)
WHERE kind = 'tree' AND period = 'all';

-- One call that refunded units of a registration. A registration can have several.
CREATE TABLE refund (
  id uuid PRIMARY KEY,
  registration_id uuid NOT NULL REFERENCES registration,
  -- That of the registration.
  account_id uuid NOT NULL,
  count bigint NOT NULL CONSTRAINT refund_count CHECK (count >= 1),
  reason text,
  created_at timestamptz NOT NULL,
  -- When its workflow was started; null until the dispatcher starts it.
  dispatched_at timestamptz
);

CREATE INDEX refund_registration ON refund (registration_id);
CREATE INDEX refund_waiting ON refund (created_at) WHERE dispatched_at IS NULL;
-- For erasing the reason of a reversal, which each of its refunds has.
CREATE INDEX refund_reason ON refund (account_id, created_at) WHERE reason IS NOT NULL;
